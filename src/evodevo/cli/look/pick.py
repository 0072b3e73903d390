"""``evodevo pick``: choose one individual of a front, with the reason."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from evodevo.cli import output
from evodevo.cli.listing import print_individuals, record, say_seeds
from evodevo.cli.options import DEFAULT_STORE, Json, RunName, StoreFolder

if TYPE_CHECKING:
    from evodevo.runs.archive import Individual
    from evodevo.runs.pick import BaselineComparison, Pick


def pick(
    run: RunName = "last",
    rule: Annotated[str, typer.Option(help="knee, or best:GOAL.")] = "knee",
    where: Annotated[
        list[str] | None, typer.Option(metavar="CONDITION", help="For example 'cache<700K'; repeatable.")
    ] = None,
    store: StoreFolder = DEFAULT_STORE,
    json: Json = False,
) -> None:
    """Choose one of the best trade-offs, and compare it with the baselines."""
    from evodevo.runs import pick as choosing
    from evodevo.runs.archive import Archive

    with Archive(store) as archive:
        opened = archive.run(run).searched()
        chosen = choosing.pick(opened, rule, where or [])
        if json:
            output.document("evodevo.pick/2", _record(chosen))
            return
        output.line(f"picked {chosen.individual.id}: {chosen.reason}")
        members = [chosen.individual, *opened.baselines()]
        print_individuals(members, opened.goals)
        for comparison in chosen.comparisons:
            output.line(_sentence(comparison))
        say_seeds(members, opened.goals)


def _sentence(comparison: BaselineComparison) -> str:
    from evodevo.runs.pick import certainty

    better = [verdict.goal for verdict in comparison.verdicts if verdict.better]
    worse = [v.goal for v in comparison.verdicts if not v.better and v.ours.mean != v.theirs.mean]
    parts = [f"better in {', '.join(better)}" if better else "", f"worse in {', '.join(worse)}" if worse else ""]
    doubts = certainty(comparison.verdicts)
    noise = f" ({doubts})" if doubts else ""
    verb = "ahead of" if comparison.ahead else "against"
    return f"{verb} {comparison.baseline} on validation: {', '.join(part for part in parts if part) or 'equal'}{noise}"


def _record(chosen: Pick[Individual]) -> dict[str, Any]:
    return {
        **record(chosen.individual),
        "why": chosen.reason,
        "comparisons": [
            {
                "baseline": comparison.baseline,
                "ahead": comparison.ahead,
                "clear": comparison.clear,
                "goals": {
                    verdict.goal: {
                        "ours": verdict.ours.mean,
                        "theirs": verdict.theirs.mean,
                        "better": verdict.better,
                        "seeds": min(verdict.ours.seeds, verdict.theirs.seeds),
                        "spread": verdict.spread,
                        "clear": verdict.clear,
                    }
                    for verdict in comparison.verdicts
                },
            }
            for comparison in chosen.comparisons
        ],
    }

"""``evodevo show``: all recorded facts of one individual, or the individuals of one run."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evodevo.cli import output
from evodevo.cli.analysis import analysis_record, show_analysis
from evodevo.cli.comparing import comparison_record, show_comparison
from evodevo.cli.grown import show_history
from evodevo.cli.listing import (
    goal_records,
    heading,
    inheritance_words,
    print_individuals,
    record,
    score,
    strip,
)
from evodevo.cli.options import DEFAULT_STORE, Json, StoreFolder
from evodevo.cli.protocols import show_composed
from evodevo.runs.search_progress import duration

if TYPE_CHECKING:
    from evodevo.runs.archive import Individual, Run
    from evodevo.storage.addresses import Place


def show(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="A beginning of the id of an individual or a run, last (the newest run), or a backbone: its genome, "
            "its name, a file.",
        ),
    ],
    depth: Annotated[
        int | None, typer.Option(help="LIVs of a backbone; a genome is stacked or trimmed.  [default: its own, or 24]")
    ] = None,
    svg: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw the architecture into a file.")] = None,
    store: StoreFolder = DEFAULT_STORE,
    json: Json = False,
) -> None:
    """Show an individual: genome, ancestry, scores, cost, reason of failure; or a run's individuals, or a backbone.

    Genomes are shown in canonical form, in which no integer is without effect.
    """
    from evodevo.backbone.named import NAMED_BACKBONES
    from evodevo.errors import UsageError
    from evodevo.runs.archive import Archive
    from evodevo.runs.given import is_architecture

    if is_architecture(name, tuple(NAMED_BACKBONES)) or depth is not None:
        _show_backbone(name, depth, svg, store, json)
        return
    with Archive(store) as archive:
        if name == "last" or archive.store.find(name).kind == "run":
            if svg is not None:
                raise UsageError(f"{name!r} is a run; --svg draws one individual. See: evodevo front {name}")
            _show_run(archive.run(name), json)
            return
        individual = archive.individual(name)
        if svg is not None:
            from evodevo.cli.files import write_text

            write_text(svg, individual.run.slice.drawing(individual))
        if json:
            output.document("evodevo.individual/1", _record(individual))
        else:
            _print(individual)


def _show_backbone(word: str, depth: int | None, svg: Path | None, store: Place, json: bool) -> None:
    from evodevo.backbone.diagrams.glyph_line import text_strip
    from evodevo.backbone.draw import drawn, marks
    from evodevo.backbone.space import BackboneSpace
    from evodevo.cli.architectures import read_architecture
    from evodevo.errors import UsageError

    space, genome, scaling = read_architecture(word, depth, None, None, store)
    if not isinstance(space, BackboneSpace):
        raise UsageError(f"{word[:80]!r} is no backbone; see its cost with: evodevo cost {word[:80]!r}")
    canonical, plans, motif = space.canonical(genome), space.plan(genome), len(space.motif(genome))
    drawing = drawn(plans, canonical)
    if svg is not None:
        from evodevo.cli.files import write_text

        write_text(svg, drawing.svg(title=word if word in space.named_genomes else "", subtitle=drawing.text))
    if json:
        facts = {"genome": space.print(genome), "canonical": drawing.text, "depth": len(genome), "motif": motif}
        output.document("evodevo.backbone/1", {**facts, "scaling": scaling or None, "words": list(drawing.words)})
        return
    if scaling:
        output.words(f"{scaling}.")
    output.line(text_strip(marks(plans, canonical), ascii_only=not output.has_unicode(sys.stdout)))
    output.line(f"genome      {drawing.text}")
    for sentence in drawing.words:
        output.line(f"            {sentence}")
    output.line(f"motif       {motif} of {len(genome)} LIVs")


def _show_run(run: Run, json: bool) -> None:
    from evodevo.runs.account import training_account

    if run.is_composed:
        if json:
            output.document(f"evodevo.{run.kind}/1", run.slice.data(run) or {})
        else:
            show_composed(run)
        return
    account = training_account(run)
    if json:
        data = {
            "run": run.id,
            "goals": goal_records(run),
            "settings": run.row.settings,
            "versions": run.row.versions,
            "data": run.data(),
            "individuals": [record(individual) for individual in [*run.baselines(), *run.individuals()]],
        }
        if not account.plain:
            data["training"] = account.to_json()
        if run.is_experiment:
            data["comparison"] = comparison_record(run)
        else:
            data |= analysis_record(run)
        output.document("evodevo.run/1", data)
        return
    for title, line in run.data_lines().items():
        output.line(f"{title:<11} {line}")
    print_individuals([*run.baselines(), *run.individuals()], run.goals)
    for sentence in account.words():
        output.words(sentence)
    if run.is_experiment:
        output.line()
        show_comparison(run)
        return
    for individual in run.individuals():
        if individual.reason and individual.evaluation is not None and individual.evaluation.detail:
            last = individual.evaluation.detail.strip().splitlines()[-1]
            output.words(f"{individual.id} {individual.reason}: {output.one_line(last, 300)}")
    show_analysis(run)


def _record(individual: Individual) -> dict[str, Any]:
    evaluations = [
        {
            "fidelity": row.fidelity,
            **({"share": row.extra["share"]} if "share" in row.extra else {}),
            "seed": row.seed,
            "attempt": row.attempt,
            "state": row.state,
            "reason": row.reason,
            "detail": row.detail,
            "seconds": row.seconds,
            "scores": {name: score.value for name, score in row.scores.items()},
            "blobs": row.blobs,
        }
        for row in individual.evaluations
    ]
    children = [arrow.child_id for arrow in individual.run.archive.store.children(individual.id)]
    facts = {"words": individual.run.slice.words(individual), "children": children, "facts": individual.fact}
    return {**record(individual), **facts, "evaluations": evaluations, "downstream": _downstream(individual)}


def _downstream(individual: Individual) -> list[dict[str, Any]]:
    """What ``evodevo evaluate`` has recorded, without the answers to single questions."""
    from evodevo.runs.downstream import recorded

    return [
        {
            "reading": payload["reading"],
            "result": {name: value for name, value in payload["result"].items() if name not in ("credits", "each")},
        }
        for payload in recorded(individual.run, individual).get(individual.id, [])
    ]


def _print(individual: Individual) -> None:
    from evodevo.report.charts.numbers import show as number
    from evodevo.runs.downstream import lines, recorded

    run = individual.run
    output.line(f"{individual.id}   {strip(individual)}")
    output.line(f"genome      {individual.title}")
    for sentence in run.slice.words(individual):
        output.line(f"            {sentence}")
    parents = f" of {' and '.join(individual.parents)}" if individual.parents else ""
    output.line(f"born        {individual.operation}{parents}, run {run.id}, generation {individual.generation}")
    if operations := individual.row.operations:
        output.line(f"mutation    {', '.join(operations)}")
    output.line(f"state       {individual.state_words}")
    for sentence in inheritance_words(individual):
        output.line(f"inherited   {sentence}")
    for goal in run.goals:
        summary = individual.summary(goal.name)
        count = 0 if summary is None else summary.seeds
        seeds = (
            f"   fresh seeds: {count}" if summary is not None and summary.fresh else f"   seeds: {count}" * (count > 1)
        )
        output.line(f"{heading(goal):<27} {score(individual, goal)}{seeds}")
    cost = individual.fact
    for name, unit in (
        ("parameters", "parameters"),
        ("cache_bytes", "bytes"),
        ("flops", "flops"),
        ("tokens", "tokens"),
    ):
        if name in cost:
            output.line(f"{name.replace('_', ' '):<27} {number(cost[name], unit)}")
    if run.is_experiment:
        show_history(individual)
    for row in individual.evaluations:
        kept = f"   weights {row.blobs['weights'][:12]}" if "weights" in row.blobs else ""
        share = row.fact("share", float, 1.0)
        rung = "" if share == 1 else f" to {share:.0%} of the budget"
        words = f"seed {row.seed}, attempt {row.attempt}{rung}: {row.state}, {duration(row.seconds)}{kept}"
        output.line(f"evaluation  {words}")
        if row.reason and row.detail:
            output.line(f"            {row.reason}: {row.detail}")
    for line in lines(recorded(run, individual).get(individual.id, [])):
        chance = f"chance {line.chance:.3f}, {line.amount}"
        output.line(f"{line.data:<27} {line.metric} {line.words()}   {chance}")

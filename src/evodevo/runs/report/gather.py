"""From a recorded run to the data of a report."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from datetime import datetime
from typing import Literal

from evodevo.runs.archive import Individual, Run
from evodevo.runs.pick import compare, pick
from evodevo.runs.report import data
from evodevo.runs.report.page import evolution_report
from evodevo.runs.report.parts import GenomeParts

BIGRAM = "byte_bigram"


def report(run: Run) -> str:
    """One self-contained HTML page on a run, as its slice has it."""
    return run.slice.report(run)


def evolution(run: Run, parts: GenomeParts | None = None) -> str:
    """The page on a search, with what its slice adds."""
    parts = parts or GenomeParts()
    return evolution_report(report_data(run, parts), parts)


def report_data(run: Run, parts: GenomeParts) -> data.EvolutionReport:
    """Everything that the page shows."""
    front = {individual.id for individual in run.front()}
    closed = run.generations()
    goals = run.goals
    reference = closed[-1]["reference"] if closed else None
    return data.EvolutionReport(
        run=facts(run, f"evodevo evolve {run.recipe} --seed {run.settings.study.seed}"),
        objectives=[data.ReportedObjective(goal.name, goal.unit, goal.direction == "minimise") for goal in goals],
        individuals=[_individual(individual, front, parts) for individual in run.individuals()],
        baselines=[_baseline(individual, parts) for individual in run.baselines()],
        reference=bigram(run, parts),
        hypervolume=[(float(row["generation"]), row["hypervolume"]) for row in closed],
        reference_point={} if reference is None else {g.name: v for g, v in zip(goals, reference, strict=True)},
        populations={row["generation"]: row.get("population", []) for row in closed},
        picks={"knee": pick(run).individual.id} if front else {},
        notes=notes(run),
    )


def bigram(run: Run, parts: GenomeParts) -> data.Reference | None:
    """Comparison with the byte-bigram count model; None where the corpus is no longer available."""
    facts = [event.payload for event in run.events() if event.type == "task"]
    if not facts or BIGRAM not in facts[0].get("count_models", {}):
        return None
    value = float(facts[0]["count_models"][BIGRAM])
    results = []
    for individual in [*run.baselines(), *run.front()]:
        results.append(
            data.ReferenceResult(individual.name, individual.fact.get("bits_per_byte"), parts.remark(individual))
        )
    return data.Reference(
        "byte bigram (add-α counts, α chosen on validation)", value, results=results, note="on the same bytes"
    )


def notes(run: Run) -> list[str]:
    """Remarks for the reader: individuals that dominate the baselines, and whether that is significant."""
    sentences = []
    for individual in run.front():
        beaten = [comparison for comparison in compare(individual, run) if comparison.dominates]
        if not beaten:
            continue
        fresh = all(verdict.ours.fresh for comparison in beaten for verdict in comparison.verdicts)
        how = "on fresh seeds" if fresh else "on the search's own seed"
        sure = "beyond the spread over seeds" if all(c.clear for c in beaten) else "within the spread in some goal"
        names = " and ".join(comparison.baseline for comparison in beaten)
        sentences.append(f"{individual.id} (born by {individual.operation}) dominates {names} {how}, {sure}.")
    if run.front() and not sentences:
        sentences.append("No individual of the front dominates a baseline.")
    summaries = [individual.summary(run.goals[0].name) for individual in run.front()]
    seeds = [summary.seeds for summary in summaries if summary is not None and summary.fresh]
    if seeds:
        sentences.append(
            f"Front and baselines are shown with their means over {seeds[0]} fresh seeds, which played no part in the "
            "search; all others with the search's own seed, which flatters whoever won."
        )
    return sentences


def facts(run: Run, command: str) -> data.RunFacts:
    """The facts of a run: content, place and time; ``command`` repeats it."""
    times = [event.payload for event in run.events() if event.type == "study.time"]
    more = {}
    if times:
        wall = sum(row["wall_seconds"] for row in times)
        busy = wall - sum(row["waited_seconds"] for row in times)
        more["overhead of the search"] = f"{busy:.1f} s of {wall:.1f} s ({busy / max(wall, 1e-9):.1%})"
    return data.RunFacts(
        id=run.id,
        recipe=run.recipe,
        command=command,
        state=run.state,
        seed=run.settings.study.seed,
        started=run.row.created_at,
        finished=run.row.finished_at or "",
        duration=_duration(run),
        hardware=f"{platform.machine()}, {os.cpu_count()} cores",
        versions={name: str(version) for name, version in run.row.versions.items()},
        settings=run.row.settings,
        more=more,
    )


def _duration(run: Run) -> str:
    if run.row.finished_at is None:
        return ""
    span = datetime.fromisoformat(run.row.finished_at) - datetime.fromisoformat(run.row.created_at)
    return f"{span.total_seconds() / 60:.1f} minutes"


def _spreads(individual: Individual) -> dict[str, tuple[float, float]]:
    summaries = {goal.name: individual.summary(goal.name) for goal in individual.run.goals}
    return {name: (s.low, s.high) for name, s in summaries.items() if s is not None and s.seeds > 1}


def _means(individual: Individual) -> dict[str, float | None]:
    summaries = {goal.name: individual.summary(goal.name) for goal in individual.run.goals}
    return {name: None if s is None else s.mean for name, s in summaries.items()}


def _individual(individual: Individual, front: set[str], parts: GenomeParts) -> data.ReportedIndividual:
    failed = individual.outcome is None or individual.outcome.reason is not None
    state: Literal["front", "dominated", "failed"] = (
        "failed" if failed else ("front" if individual.id in front else "dominated")
    )
    return data.ReportedIndividual(
        id=individual.id,
        generation=individual.generation,
        state=state,
        scores=_means(individual),
        spreads=_spreads(individual),
        operation=individual.operation,
        parents=individual.parents,
        reason=individual.reason or ("" if individual.outcome is not None else "not finished"),
        detail=individual.evaluation.detail if individual.evaluation is not None else "",
        seconds=individual.evaluation.seconds if individual.evaluation is not None else None,
        genome=parts.drawn(individual),
        text=parts.text(individual),
        curve=individual.curve(),
        curve_state=stability(individual.curve(), individual.reason),
    )


def _baseline(individual: Individual, parts: GenomeParts) -> data.ReportedBaseline:
    summary = individual.summary(individual.run.goals[0].name)
    return data.ReportedBaseline(
        name=individual.name,
        scores=_means(individual),
        spreads=_spreads(individual),
        seeds=1 if summary is None else summary.seeds,
        genome=parts.drawn(individual),
    )


SPIKE = 1.3


def stability(curve: Sequence[tuple[float, float]], reason: str) -> Literal["stable", "unstable", "diverged", "failed"]:
    """Stable: after its first tenth the loss never rises 30 % over the lowest before (the share of Fig. 4.2)."""
    if reason in ("diverged", "nan"):
        return "diverged"
    if reason:
        return "failed"
    lowest = float("inf")
    for place, (_, loss) in enumerate(curve):
        if place * 10 > len(curve) and loss > SPIKE * lowest:
            return "unstable"
        lowest = min(lowest, loss)
    return "stable"

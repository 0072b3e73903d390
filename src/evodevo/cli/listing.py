"""Individuals as rows for people and as records for programs."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from evodevo.cli import output

if TYPE_CHECKING:
    from evodevo.runs.archive import Individual, Run
    from evodevo.search.problem import Goal


def strip(individual: Individual) -> str:
    """The genome in one short line; for a backbone one glyph per LIV, letters where stdout only has ASCII."""
    run = individual.run
    return run.slice.strip(run.space, individual.genome, ascii_only=not output.has_unicode(sys.stdout))


def heading(goal: Goal) -> str:
    """A goal's name, unit and better direction."""
    from evodevo.report.charts.numbers import says_its_unit

    unit = f" ({goal.unit})" if goal.unit and not says_its_unit(goal.unit) else ""
    return f"{goal.name}{unit} {'↓' if goal.direction == 'minimise' else '↑'}"


def score(individual: Individual, goal: Goal) -> str:
    """A score as text; the mean with its range where fresh seeds were trained."""
    from evodevo.report.charts.numbers import show

    summary = individual.summary(goal.name)
    if summary is None:
        return show(None)
    mean, low, high = (show(value, goal.unit, padded=True) for value in (summary.mean, summary.low, summary.high))
    return mean if summary.low == summary.high else f"{mean} ({low} to {high})"


def print_individuals(individuals: Sequence[Individual], goals: Sequence[Goal]) -> None:
    """Print a table with scores and genomes."""
    from evodevo.search.members import BASELINE

    headings = [heading(goal) for goal in goals]
    rows = [
        (
            individual.name,
            "" if individual.operation == BASELINE else individual.generation,
            individual.operation,
            *(score(individual, goal) for goal in goals),
            individual.state_words,
            strip(individual),
        )
        for individual in individuals
    ]
    output.table(("individual", "born", "operation", *headings, "state", "genome"), rows, right=("born", *headings))


def inheritance_words(individual: Individual) -> list[str]:
    """What share of its weights an individual began with, and from whom; nothing where it began from scratch."""
    fact = individual.fact.get("inherited")
    if fact is None:
        return []
    counts: dict[str, int] = dict.fromkeys(fact["donors"], 0)
    for donor, _ in fact["parts"].values():
        counts[donor] += 1
    sources = " and ".join(f"{count} parts of {donor}" for donor, count in counts.items() if count)
    return [f"{fact['share']:.0%} of the weights: {sources}"]


def say_seeds(individuals: Sequence[Individual], goals: Sequence[Goal]) -> None:
    """Print whether the scores come from fresh seeds."""
    from evodevo.runs.recorded import RETRAINING
    from evodevo.runs.slices import OWN_STUDY

    summaries = [
        result for individual in individuals for goal in goals if (result := individual.summary(goal.name)) is not None
    ]
    fresh = [summary.seeds for summary in summaries if summary.fresh]
    seeds = max((summary.seeds for summary in summaries), default=0)
    if summaries and individuals[0].run.kind == RETRAINING:
        several = f"means over {seeds} seeds; in brackets the lowest and highest" if seeds > 1 else "of one seed"
        output.words(f"scores: {several}.")
    elif fresh and len(fresh) == len(summaries):
        count = f"{max(fresh)} fresh seeds" if max(fresh) > 1 else "a fresh seed"
        brackets = "; in brackets the lowest and highest" if max(fresh) > 1 else ""
        output.words(f"scores: over {count} that played no part in the search, which chose by its own{brackets}.")
    elif summaries:
        # The function of a study of one's own is in its user's code alone.
        remedy = "" if individuals[0].run.kind == OWN_STUDY else " See: evodevo train"
        output.words(f"scores: of the search's own seed; a front picked by them flatters itself.{remedy}")


def record(individual: Individual) -> dict[str, Any]:
    """An individual for ``--json``. A value that is not finite is null, and ``statuses`` has its kind."""
    evaluation = individual.evaluation
    summaries = {goal.name: individual.summary(goal.name) for goal in individual.run.goals}
    operations = individual.row.operations if "operations" in individual.row.details else None
    # Only where there is something of the kind: documents of other runs are as they were.
    cheaper = {"share": individual.share} if individual.stopped else {}
    cheaper |= {"inherited": individual.fact["inherited"]} if "inherited" in individual.fact else {}
    statuses = {} if evaluation is None else {name: result.status for name, result in evaluation.scores.items()}
    ranges = {
        name: {"mean": summary.mean, "low": summary.low, "high": summary.high, "seeds": summary.seeds}
        for name, summary in summaries.items()
        if summary is not None
    }
    return {
        "id": individual.id,
        "name": individual.name,
        "run": individual.run.id,
        "generation": individual.generation,
        "slot": individual.slot,
        "operation": individual.operation,
        "parents": list(individual.parents),
        **({} if operations is None else {"operations": operations}),
        "genome": individual.text,
        "state": individual.state,
        "reason": individual.reason or None,
        "scores": individual.scores,
        "statuses": statuses,
        **cheaper,
        "seeds": ranges,
        "fresh_seeds": {
            name: range for name, range in ranges.items() if (known := summaries[name]) is not None and known.fresh
        },
    }


def comparable(a: Individual, b: Individual) -> bool:
    """Whether both are genomes of one space, and for backbones of equally many integers per LIV."""
    one, other = a.run.space, b.run.space
    return (one.name, getattr(one, "genes", None)) == (other.name, getattr(other, "genes", None))


def goal_records(run: Run) -> list[dict[str, str]]:
    """The goals for ``--json``."""
    return [{"name": goal.name, "unit": goal.unit, "direction": goal.direction} for goal in run.goals]

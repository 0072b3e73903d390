"""Conversion between outcomes and the evaluation rows of the store."""

from __future__ import annotations

import math
from typing import Any

from evodevo.search.problem import Outcome
from evodevo.storage import Evaluation, EvaluationRow, EventRow, Score
from evodevo.storage.base import as_written, names_of

REPEATABLE = ("lost", "killed")
"""Reasons that are no evidence about the genome: such an evaluation is repeated, at once and on resume."""

_NUMBERS = {"inf": math.inf, "neginf": -math.inf}


def to_evaluation(individual: str, fidelity: str, seed: int, attempt: int, outcome: Outcome) -> Evaluation:
    """The row of an outcome; violation and share have no columns of their own and are stored in ``extra``."""
    share = {} if outcome.share == 1 else {"share": outcome.share}
    return Evaluation(
        individual_id=individual,
        fidelity=fidelity,
        seed=seed,
        attempt=attempt,
        state="done" if outcome.reason is None else "failed",
        reason=outcome.reason,
        detail=outcome.detail,
        scores={name: Score.of(value) for name, value in outcome.scores.items()},
        cost=outcome.cost,
        extra={**outcome.extra, "violation": outcome.violation, **share},
        seconds=outcome.seconds,
        blobs=outcome.blobs,
        series=outcome.series,
    )


def to_outcome(row: EvaluationRow) -> Outcome:
    """The outcome in a row, without its curves."""
    scores = {
        name: score.value if score.value is not None else _NUMBERS.get(score.status, math.nan)
        for name, score in row.scores.items()
    }
    return Outcome(
        reason=row.reason,
        scores=scores,
        detail=row.detail,
        violation=row.fact("violation", float, 0.0),
        share=row.fact("share", float, 1.0),
        cost=row.cost,
        extra=row.extra,
        blobs=row.blobs,
        seconds=row.seconds,
    )


def to_generation(event: EventRow) -> tuple[int, dict[str, Any]]:
    """The number of a finished generation, and what was recorded of it.

    Raises:
        StoreDamagedError: one that evodevo did not write.
    """
    with as_written(f"event {event.seq} ({event.type})", "a subject"):
        number = int(event.subject)
    facts = {
        "front": event.fact("front", names_of),
        "hypervolume": event.fact("hypervolume", float),
        "reference": event.fact("reference", _point),
        "evaluated": event.fact("evaluated", int),
        "failed": event.fact("failed", int),
    }
    # Older versions did not record the population.
    population = {"population": event.fact("population", names_of)} if "population" in event.payload else {}
    return number, {**event.payload, **facts, **population}


def _point(value: Any) -> list[float] | None:
    return None if value is None else [float(number) for number in value]


def is_lost(row: EvaluationRow) -> bool:
    """Whether the evaluation ended with its worker or its coordinator, without an answer; one that was stopped on
    purpose did not.
    """
    return row.state == "running" or (row.state == "stale" and not row.detail) or row.reason in REPEATABLE


def is_final(row: EvaluationRow) -> bool:
    """Whether the evaluation has ended with a result that is not repeated."""
    return row.state == "done" or (row.state == "failed" and row.reason not in REPEATABLE)

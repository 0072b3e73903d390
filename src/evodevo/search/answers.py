"""Checks of what evaluators answer and report: their code may be a user's or another package's.

What a store would refuse, or could not read again, costs one individual here; there it would end the run.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from evodevo import canonical
from evodevo.errors import UsageError
from evodevo.search.problem import Outcome, Problem
from evodevo.storage.blobs import BlobPool

OWN_EVENTS = frozenset(
    (
        *("agent", "components", "cycle", "evaluation", "experiment", "generation", "individuals", "publication"),
        *("rung", "run", "space", "store", "study", "task"),
    )
)
"""First words of the types of events by which evodevo finds its way back into a run."""
_DIGEST = re.compile(r"[0-9a-f]{64}")


def check_outcome(problem: Problem, outcome: Outcome) -> None:
    """
    Raises:
        UsageError: A part of the outcome is of another type than ``Outcome`` states, a goal is missing, or a part has
            no JSON form.
    """
    if not (outcome.reason is None or isinstance(outcome.reason, str)) or not isinstance(outcome.detail, str):
        raise UsageError("its reason and its detail are texts.")
    for name in ("scores", "cost", "extra", "blobs", "series"):
        part = getattr(outcome, name)
        if not isinstance(part, Mapping) or not all(isinstance(key, str) for key in part):
            raise UsageError(f"its {name} are names with values.")
    if not all(_is_number(value) for value in outcome.scores.values()):
        raise UsageError("its scores are numbers.")
    missing = [goal.name for goal in problem.goals if goal.name not in outcome.scores]
    if outcome.reason is None and missing:
        raise UsageError(f"it lacks {', '.join(missing)}.")
    for name, value in (("seconds", outcome.seconds), ("violation", outcome.violation)):
        if not _is_number(value) or not (math.isfinite(value) and value >= 0):
            raise UsageError(f"its {name} are a number, 0 or more; got {value!r}.")
    if not all(_is_digest(digest) for digest in outcome.blobs.values()):
        raise UsageError("its blobs are named by 64 hexadecimal digits.")
    if not all(len(point) == 2 and all(map(_is_number, point)) for curve in outcome.series.values() for point in curve):
        raise UsageError("its series are pairs of numbers.")
    canonical.dumps([dict(outcome.cost), dict(outcome.extra)])


def fault_of_blobs(blobs: Mapping[str, str], pool: BlobPool) -> str | None:
    """What is wrong with references to blobs; None where all are in the pool."""
    absent = [f"{digest} ({name})" for name, digest in blobs.items() if pool.size(digest) is None]
    return f"blobs are not in the pool: {', '.join(absent)}." if absent else None


def fault_of_message(payload: Mapping[str, Any], pool: BlobPool) -> str | None:
    """What is wrong with a live message that carries a checkpoint or an event; None where it can be kept."""
    if "checkpoint" in payload:
        parts = payload.get("blobs", [])
        digests = [payload["checkpoint"], *(parts if isinstance(parts, list) else [None])]
        if not all(map(_is_digest, digests)):
            return "a checkpoint and its blobs are named by 64 hexadecimal digits."
        return fault_of_blobs({f"checkpoint {place}": digest for place, digest in enumerate(digests)}, pool)
    if "event" in payload:
        event = payload["event"]
        if not isinstance(event, dict) or not isinstance(event.get("payload"), dict):
            return "an event has a type, a name and a payload, which is a dict."
        if not all(isinstance(event.get(part), str) and event[part] for part in ("type", "name")):
            return "the type and the name of an event are texts."
        if event["type"].partition(".")[0] in OWN_EVENTS:
            return f"events of the type {event['type']!r} are evodevo's own."
    return None


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_digest(value: object) -> bool:
    return isinstance(value, str) and _DIGEST.fullmatch(value) is not None

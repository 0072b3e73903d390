"""The checked answer of an evaluator of paths: it is data from outside, and a wrong answer fails that child alone."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from evodevo import canonical
from evodevo.errors import UsageError
from evodevo.multitask.search.score import kept_evaluation

HEX = frozenset("0123456789abcdef")


@dataclass(frozen=True)
class TrainedComponent:
    """A component that training made: its blob is in the pool."""

    digest: str
    parameters: int


@dataclass(frozen=True)
class Answer:
    """The result of a child.

    Attributes:
        reason: reason of its failure, one word; None where it succeeded.
        detail: details of the reason, for display.
        evals: validation accuracies in the order of training; None where one is not a number.
        quality: the best of them; None where there is none.
        improved: whether its trained components are kept.
        components: role -> trained component; empty where it is discarded.
        facts: other fields of the answer, JSON.
        seconds: duration of the evaluation.
    """

    reason: str | None = None
    detail: str = ""
    evals: tuple[float | None, ...] = ()
    quality: float | None = None
    improved: bool = False
    components: Mapping[str, TrainedComponent] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)
    seconds: float = 0.0


def read_answer(payload: bytes, trained: Mapping[str, int], quality_bar: float | None, *, always: bool) -> Answer:
    """The answer of an evaluator.

    Args:
        payload: the bytes that it returned.
        trained: roles that it was to train, with their numbers of parameters.
        quality_bar: accuracy that it was to exceed; None without one.
        always: whether it is kept whatever its accuracy.

    Raises:
        UsageError: it contradicts the request, or itself.
    """
    answer = canonical.loads(payload, what="the answer of an evaluator", max_bytes=48 * 2**20)
    if not isinstance(answer, dict):
        raise UsageError("an evaluator of paths answers with a JSON object.")
    seconds = _number(answer.get("seconds", 0.0), "seconds") or 0.0
    known = ("reason", "detail", "evals", "quality", "improved", "components", "seconds")
    facts = {key: value for key, value in answer.items() if key not in known}
    if answer.get("reason") is not None:
        return Answer(str(answer["reason"]), str(answer.get("detail", "")), facts=facts, seconds=seconds)
    evals = tuple(_number(value, "evals") for value in answer.get("evals", []))
    finite = [value for value in evals if value is not None]
    best = max(finite, default=None)
    quality = _number(answer.get("quality", best), "quality")
    if quality != best:
        raise UsageError(f"it says that the best of {evals} is {quality}.")
    improved = bool(answer.get("improved"))
    if improved != (always or kept_evaluation(evals, quality_bar) is not None):
        raise UsageError(f"it says improved = {improved}; its accuracies {evals} and the bar {quality_bar} do not.")
    components = {
        role: TrainedComponent(_digest(component["digest"]), int(component["parameters"]))
        for role, component in (answer.get("components") or {}).items()
    }
    if improved and {role: component.parameters for role, component in components.items()} != dict(trained):
        sizes = {role: component.parameters for role, component in sorted(components.items())}
        raise UsageError(f"it trained {sizes}; asked for were {dict(sorted(trained.items()))}.")
    return Answer(None, "", evals, quality, improved, components if improved else {}, facts, seconds)


def _number(value: Any, what: str) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise UsageError(f"{what} holds {value!r}, no number.")
    return float(value) if math.isfinite(value) else None


def _digest(value: Any) -> str:
    if not (isinstance(value, str) and len(value) == 64 and set(value) <= HEX):
        raise UsageError(f"{value!r} is no digest of a blob.")
    return value

"""What a study asks of a problem: which numbers, what is refused unseen, how a genome becomes a job and an outcome."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from evodevo import canonical
from evodevo.errors import DiskFullError, UsageError
from evodevo.execution.base import Evaluator, Report
from evodevo.objectives.base import Direction

INFEASIBLE = "infeasible"
DISK_FULL = "disk_full"
DAMAGED = "damaged"
"""Weights that an evaluation needs are gone, or are not what their digest says."""


@dataclass(frozen=True)
class Goal:
    """An objective as a study sees it."""

    name: str
    unit: str = ""
    direction: Direction = "minimise"

    def to_minimise(self, value: float) -> float:
        """The value as a number to minimise."""
        return value if self.direction == "minimise" else -value


@dataclass(frozen=True)
class Outcome:
    """The result of evaluating one genome.

    Attributes:
        reason: why there is none ("nan", "diverged", "infeasible", "exception", …); None where all went well.
        scores: goal -> value; not finite values are kept as states.
        detail: for people.
        violation: how far constraints are broken; 0 where they hold.
        cost, extra: JSON.
        blobs: role -> digest in the store's pool.
        series: name -> points.
        seconds: of work.
    """

    reason: str | None = None
    scores: Mapping[str, float] = field(default_factory=dict)
    detail: str = ""
    violation: float = 0.0
    cost: Mapping[str, Any] = field(default_factory=dict)
    extra: Mapping[str, Any] = field(default_factory=dict)
    blobs: Mapping[str, str] = field(default_factory=dict)
    series: Mapping[str, list[tuple[float, float]]] = field(default_factory=dict)
    seconds: float = 0.0

    def values(self, goals: tuple[Goal, ...]) -> tuple[float, ...] | None:
        """All goals as finite numbers to minimise, or None."""
        numbers = [self.scores.get(goal.name, math.nan) for goal in goals]
        if self.reason is not None or not all(math.isfinite(number) for number in numbers):
            return None
        return tuple(goal.to_minimise(number) for goal, number in zip(goals, numbers, strict=True))


class Problem(ABC):
    """A family of evaluations of one fidelity.

    Attributes:
        goals: what is optimised.
        fidelity: text; scores of equal fidelity and seed are comparable.
        entry: name of the evaluator.
        seconds: limit of one evaluation, or None.
        memory_bytes: limit of one evaluation, or None.
    """

    goals: tuple[Goal, ...]
    fidelity: str
    entry: str
    seconds: float | None = None
    memory_bytes: int | None = None

    def screen(self, genome: Any) -> Outcome | None:
        """An outcome that needs no evaluation (a broken constraint), or None."""
        return None

    @abstractmethod
    def payload(self, genome: Any, seed: int, resume: str | None = None) -> bytes:
        """What the evaluator gets.

        Args:
            genome: to be evaluated.
            seed: of the evaluation.
            resume: digest of the last checkpoint that it reported before it was cut short, if any.
        """

    @abstractmethod
    def read(self, payload: bytes) -> Outcome:
        """What it answered."""

    def baselines(self) -> dict[str, Any]:
        """Hand-drawn genomes to compare with, by name."""
        return {}

    def describe(self) -> dict[str, Any]:
        """What is recorded of the data when a run begins: JSON."""
        return {}

    def local_evaluators(self) -> Mapping[str, Evaluator] | None:
        """Evaluators that only this process has; None where ``entry`` is registered."""
        return None


Scores = float | Mapping[str, float] | tuple[float, ...] | list[float]


class FunctionProblem(Problem):
    """A problem given as a Python function, evaluated in this process.

    Args:
        space: of the genomes.
        function: genome -> one number, several in the order of the goals, or numbers by name.
        goals: what they mean.
    """

    entry = "function"

    def __init__(self, space: Any, function: Callable[[Any], Scores], goals: tuple[Goal, ...]) -> None:
        self.space = space
        self.function = function
        self.goals = goals
        self.fidelity = "function"

    def payload(self, genome: Any, seed: int, resume: str | None = None) -> bytes:
        return canonical.dumps(self.space.to_json(genome)).encode()

    def read(self, payload: bytes) -> Outcome:
        return Outcome(scores=read_numbers(canonical.loads(payload, what="scores")))

    def local_evaluators(self) -> Mapping[str, Evaluator]:
        return {self.entry: self._evaluate}

    def _evaluate(self, payload: bytes, report: Report) -> bytes:
        genome = self.space.from_json(canonical.loads(payload, what="the genome"))
        return canonical.dumps(write_numbers(self._named(self.function(genome)))).encode()

    def _named(self, scores: Scores) -> dict[str, float]:
        if isinstance(scores, Mapping):
            missing = [goal.name for goal in self.goals if goal.name not in scores]
            if missing:
                raise UsageError(
                    f"the function gave no {', '.join(missing)}; it gave {', '.join(scores) or 'nothing'}."
                )
            return {goal.name: float(scores[goal.name]) for goal in self.goals}
        # A number may come from numpy or torch too, where it is an array without dimensions.
        values = [float(value) for value in ([scores] if np.ndim(scores) == 0 else scores)]  # type: ignore[arg-type,union-attr]
        if len(values) != len(self.goals):
            raise UsageError(f"the function gave {len(values)} numbers; {len(self.goals)} goals want one each.")
        return {goal.name: value for goal, value in zip(self.goals, values, strict=True)}


def write_numbers(numbers: Mapping[str, float]) -> dict[str, Any]:
    """Numbers for JSON: what is not finite becomes its name."""
    return {name: value if math.isfinite(value) else str(value) for name, value in numbers.items()}


def read_numbers(data: Mapping[str, Any]) -> dict[str, float]:
    """The inverse of ``write_numbers``."""
    return {name: float(value) for name, value in data.items()}


def answered(work: Callable[[], Mapping[str, Any]]) -> bytes:
    """The answer of an evaluator's work in bytes; a full disk is an answer too."""
    try:
        answer = work()
    except DiskFullError as error:
        parts = ("scores", "cost", "extra", "blobs", "series")
        answer = {"reason": DISK_FULL, "detail": str(error), "seconds": 0.0, **{name: {} for name in parts}}
    return canonical.dumps(dict(answer)).encode()


def read_answer(payload: bytes) -> Outcome:
    """The inverse of ``answered``."""
    data = canonical.loads(payload, what="the answer of an evaluation", max_bytes=1 << 26)
    series = {name: [(float(x), float(y)) for x, y in points] for name, points in data["series"].items()}
    return Outcome(
        reason=data["reason"],
        scores=read_numbers(data["scores"]),
        detail=data["detail"],
        cost=data["cost"],
        extra=data["extra"],
        blobs=data["blobs"],
        series=series,
        seconds=data["seconds"],
    )

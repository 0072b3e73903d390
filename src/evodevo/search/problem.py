"""The interface of an optimisation problem: its goals, its constraints, and how a genome is evaluated."""

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
from evodevo.execution.memory import free_bytes
from evodevo.objectives.base import Direction
from evodevo.search.base import Foreseen

INFEASIBLE = "infeasible"
DISK_FULL = "disk_full"
DAMAGED = "damaged"
"""Reason of an outcome: weights that the evaluation needs are missing, or do not match their digest."""


@dataclass(frozen=True)
class Goal:
    """An objective of a study: a named number with a unit and a direction.

    Attributes:
        name: Name.
        unit: Unit, may be empty.
        direction: Whether smaller or larger values are better.
        exact: Function genome -> the value that an evaluation would give, where the genome alone decides it (a size, a
            cache); None where only an evaluation tells. An algorithm may call it thousands of times.
    """

    name: str
    unit: str = ""
    direction: Direction = "minimise"
    exact: Callable[[Any], float] | None = field(default=None, compare=False, repr=False)

    def to_minimise(self, value: float) -> float:
        """The value as a number to minimise."""
        return value if self.direction == "minimise" else -value


@dataclass(frozen=True)
class Outcome:
    """The result of evaluating one genome.

    Attributes:
        reason: Reason of a failure ("nan", "diverged", "infeasible", "exception", …); None after a success.
        scores: Goal -> value; values that are not finite are stored as states.
        detail: Explanation for people, may be empty.
        violation: Sum of the constraint violations, >= 0; 0 where all constraints hold.
        cost: Cost of the model, JSON-able.
        extra: Further facts, JSON-able.
        blobs: Role -> digest of a blob in the store.
        series: Name -> (x, y) points of a curve.
        seconds: Duration of the evaluation in seconds, >= 0.
        share: Share of the training budget at which it was measured, above 0, at most 1.
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
    share: float = 1.0

    def values(self, goals: tuple[Goal, ...]) -> tuple[float, ...] | None:
        """The values of all goals as finite numbers to minimise; None after a failure or where one is not finite."""
        numbers = [self.scores.get(goal.name, math.nan) for goal in goals]
        if self.reason is not None or not all(math.isfinite(number) for number in numbers):
            return None
        return tuple(goal.to_minimise(number) for goal, number in zip(goals, numbers, strict=True))


@dataclass(frozen=True)
class Terms:
    """What one evaluation is granted beside genome and seed.

    Attributes:
        share: Share of its budget after which it stops, above 0, at most 1. Less than 1 leaves a snapshot (role
            ``SNAPSHOT`` of its blobs), from which an evaluation with a larger share goes on.
        budget: Its budget as a share of the problem's, above 0, at most 1; a schedule spans this budget.
        donors: (id, digest of the weights) of the individuals whose tensors the network begins with, the preferred
            first.
        bequeaths: Whether its weights are kept for children (role ``INHERITANCE``), whatever the problem keeps.
    """

    share: float = 1.0
    budget: float = 1.0
    donors: tuple[tuple[str, str], ...] = ()
    bequeaths: bool = False


WHOLE = Terms()
SNAPSHOT = "snapshot"
INHERITANCE = "inheritance"


class Problem(ABC):
    """A family of evaluations of one fidelity.

    Attributes:
        goals: Objectives of the search.
        fidelity: Key of data and training; scores of equal fidelity and seed are comparable.
        entry: Name of the evaluator.
        seconds: Time limit of one evaluation in seconds; None = no limit.
        memory_bytes: Memory limit of one evaluation in bytes; None = no limit.
        undivided: Why its evaluations cannot stop at a share of their budget and go on; empty where they can.
        fresh: Why its evaluations cannot begin with the weights of others; empty where they can.
    """

    goals: tuple[Goal, ...]
    fidelity: str
    entry: str
    seconds: float | None = None
    memory_bytes: int | None = None
    undivided: str = "its evaluations have no budget of which a share could be used"
    fresh: str = "its evaluations have no weights"

    def screen(self, genome: Any) -> Outcome | None:
        """An outcome that needs no evaluation (a broken constraint), or None."""
        return None

    def foresee(self, genome: Any) -> Foreseen:
        """What is known of a genome before its evaluation: exact objectives, and the constraints of ``screen``."""
        screened = self.screen(genome)
        values = (None if goal.exact is None else goal.to_minimise(float(goal.exact(genome))) for goal in self.goals)
        return Foreseen(
            tuple(None if value is None or not math.isfinite(value) else value for value in values),
            0.0 if screened is None else screened.violation,
        )

    @abstractmethod
    def payload(self, genome: Any, seed: int, resume: str | None = None) -> bytes:
        """The input of the evaluator.

        Args:
            genome: Genome to evaluate.
            seed: Seed of the evaluation.
            resume: Digest of the last checkpoint of an interrupted attempt, or of the snapshot that the evaluation goes
                on from; None starts from the beginning.
        """

    def payload_on(self, terms: Terms, genome: Any, seed: int, resume: str | None = None) -> bytes:
        """The same with other terms than ``WHOLE``; asked only of a problem that is not ``undivided`` or ``fresh``."""
        raise UsageError(f"these evaluations are made as a whole: {self.undivided}.")

    @abstractmethod
    def read(self, payload: bytes) -> Outcome:
        """The outcome in an evaluator's answer."""

    def baselines(self) -> dict[str, Any]:
        """Hand-designed genomes for comparison, by name."""
        return {}

    def describe(self) -> dict[str, Any]:
        """JSON-able description of the data, recorded when a run begins."""
        return {}

    def local_evaluators(self) -> Mapping[str, Evaluator] | None:
        """Evaluators that exist in this process only; None where ``entry`` is a registered name."""
        return None


Scores = float | Mapping[str, float] | tuple[float, ...] | list[float]


class FunctionProblem(Problem):
    """A problem given as a Python function, evaluated in this process.

    Args:
        space: Space of the genomes.
        function: Genome -> one number, several in the order of the goals, or numbers by name.
        goals: Names, units and directions of these numbers.
    """

    entry = "function"

    def __init__(
        self,
        space: Any,
        function: Callable[[Any], Scores],
        goals: tuple[Goal, ...],
        seconds: float | None = None,
        memory_bytes: int | None = None,
    ) -> None:
        self.seconds = seconds
        self.memory_bytes = free_bytes() if memory_bytes is None else memory_bytes
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
                given = ", ".join(map(str, scores)) or "nothing"
                raise UsageError(f"the function gave no {', '.join(missing)}; it gave {given}.")
            return {goal.name: float(scores[goal.name]) for goal in self.goals}
        # A scalar of numpy or torch is an array without dimensions, so isinstance(scores, float) would miss it.
        values = [float(value) for value in ([scores] if np.ndim(scores) == 0 else scores)]  # type: ignore[arg-type,union-attr]
        if len(values) != len(self.goals):
            raise UsageError(f"the function gave {len(values)} numbers; {len(self.goals)} goals need one each.")
        return {goal.name: value for goal, value in zip(self.goals, values, strict=True)}


def write_numbers(numbers: Mapping[str, float]) -> dict[str, Any]:
    """Numbers as JSON-able data: a value that is not finite becomes a string ("nan", "inf", "-inf")."""
    return {name: value if math.isfinite(value) else str(value) for name, value in numbers.items()}


def read_numbers(data: Mapping[str, Any]) -> dict[str, float]:
    """The inverse of ``write_numbers``."""
    return {name: float(value) for name, value in data.items()}


def answered(work: Callable[[], Mapping[str, Any]]) -> bytes:
    """The answer of an evaluation as bytes; a full disk is answered with the reason ``disk_full``."""
    try:
        return canonical.dumps(dict(work())).encode()
    except DiskFullError as error:
        return write_answer(Outcome(reason=DISK_FULL, detail=str(error)))


def write_answer(outcome: Outcome) -> bytes:
    """The answer with this outcome, whose cost, facts and series are JSON-able."""
    names = ("reason", "detail", "cost", "extra", "blobs", "series", "seconds")
    answer = {name: getattr(outcome, name) for name in names}
    return canonical.dumps({**answer, "scores": write_numbers(outcome.scores)}).encode()


def read_answer(payload: bytes) -> Outcome:
    """The inverse of ``answered`` and ``write_answer``."""
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

"""The words of the store: what is written, what is read back, and how ids come about.

Everything here is a frozen value. Whatever is called JSON must have a canonical form (``evodevo.canonical``): no NaN.
"""

from __future__ import annotations

import hashlib
import math
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from evodevo import canonical
from evodevo.errors import StoreDamagedError, UsageError

RunState = Literal["running", "finished", "interrupted", "failed"]
EvaluationState = Literal["running", "done", "failed", "stale"]
Outcome = Literal["done", "failed"]
Status = Literal["ok", "nan", "inf", "neginf", "diverged", "missing"]

MAX_DETAIL = 4096
ROLES = "abcdefghijklmnop"


def new_run_id() -> str:
    """``r`` and twelve random hexadecimal digits; the only random ids there are."""
    return "r" + secrets.token_hex(6)


def individual_id(run_id: str, birth: str) -> str:
    """Twelve hexadecimal digits that follow from the run and the birth key.

    Args:
        run_id: the run in which the individual is born.
        birth: unique in the run, for example ``"3/7"`` for generation 3, slot 7.
    """
    return canonical.digest([run_id, birth])[:12]


def evaluation_id(individual: str, fidelity: str, seed: int, attempt: int) -> str:
    """Sixteen hexadecimal digits that follow from what is evaluated."""
    return canonical.digest([individual, fidelity, seed, attempt])[:16]


@dataclass(frozen=True)
class Score:
    """One objective's result: a finite number, or the reason why there is none.

    Raises:
        UsageError: a number with a status other than ``ok``, no number with ``ok``, or a number that is not finite.
    """

    value: float | None
    status: Status = "ok"

    def __post_init__(self) -> None:
        if self.status not in get_args(Status):
            raise UsageError(f"unknown score status {self.status!r}; known: {', '.join(get_args(Status))}.")
        if (self.status == "ok") != (self.value is not None):
            raise UsageError(f"a score is a number with status ok, or a status alone; got {self.value}, {self.status}.")
        if self.value is not None:
            number = float(self.value)
            if not math.isfinite(number):
                raise UsageError(f"{number} is no score; Score.of turns it into a status.")
            # SQLite keeps no sign of zero; adding 0.0 drops it here, so that what is read equals what was written.
            object.__setattr__(self, "value", number + 0.0)

    @classmethod
    def of(cls, number: float) -> Score:
        """The score of any float: NaN and the infinities become statuses."""
        if math.isnan(number):
            return cls(None, "nan")
        if math.isinf(number):
            return cls(None, "inf" if number > 0 else "neginf")
        return cls(number)


@dataclass(frozen=True)
class NewIndividual:
    """An individual to be recorded.

    Args:
        id: ``individual_id(run_id, birth)``; anything else is refused.
        birth: the key that is unique in the run.
        generation: generation, or event number in steady state.
        slot: place within the generation.
        genome_envelope: the genome as JSON data (space, version, genes).
        genome_hash: the space's hash of the genome.
        operation: how it was made ("initial", "crossover", ...).
        details: JSON data about the operation.
        parents: ids in role order a, b, ...; they may belong to another run of this store.
        seed: seed of the individual's training, in [0, 2**63).
    """

    id: str
    birth: str
    generation: int
    slot: int
    genome_envelope: Mapping[str, Any]
    genome_hash: str
    operation: str
    details: Mapping[str, Any] = field(default_factory=dict)
    parents: tuple[str, ...] = ()
    seed: int = 0


@dataclass(frozen=True)
class IndividualRow:
    """A recorded individual; ``created_seq`` is the event that brought it."""

    id: str
    run_id: str
    birth: str
    generation: int
    slot: int
    genome_envelope: dict[str, Any]
    genome_hash: str
    operation: str
    details: dict[str, Any]
    parents: tuple[str, ...]
    seed: int
    created_seq: int
    created_at: str


@dataclass(frozen=True)
class Parent:
    """One arrow of the record of ancestry."""

    child_id: str
    parent_id: str
    role: str


@dataclass(frozen=True)
class Evaluation:
    """The whole outcome of one evaluation, written in one transaction.

    Args:
        individual_id: who was evaluated.
        fidelity: what the scores hold for, as text ("tokens=200000").
        seed: seed of the evaluation, in [0, 2**63).
        attempt: what ``start_evaluation`` returned (1 where it was not called).
        state: ``done`` or ``failed``.
        reason: why it failed, one word ("timeout"); None when done.
        detail: for a person, at most 4,096 characters (the end is kept).
        scores: objective -> score.
        cost: the static cost record, JSON.
        extra: anything else, JSON.
        seconds: wall time of the evaluation.
        blobs: role -> digest of a blob that is in the pool already.
        series: name -> points (x, y); y may be non-finite, as diverged curves are.
    """

    individual_id: str
    fidelity: str
    seed: int
    attempt: int = 1
    state: Outcome = "done"
    reason: str | None = None
    detail: str = ""
    scores: Mapping[str, Score] = field(default_factory=dict)
    cost: Mapping[str, Any] = field(default_factory=dict)
    extra: Mapping[str, Any] = field(default_factory=dict)
    seconds: float = 0.0
    blobs: Mapping[str, str] = field(default_factory=dict)
    series: Mapping[str, Sequence[tuple[float, float]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.state not in get_args(Outcome):
            raise UsageError(f"an evaluation ends as done or failed, not as {self.state!r}.")
        if (self.state == "failed") != (self.reason is not None):
            raise UsageError("a failed evaluation has a reason, and only a failed one has.")
        if not (math.isfinite(self.seconds) and self.seconds >= 0):
            raise UsageError(f"an evaluation takes a finite number of seconds, at least 0; got {self.seconds}.")

    @property
    def id(self) -> str:
        """The id that the row has or will have."""
        return evaluation_id(self.individual_id, self.fidelity, self.seed, self.attempt)


@dataclass(frozen=True)
class EvaluationRow:
    """A recorded evaluation.

    ``finished_seq`` orders evaluations by completion, and is None while one runs. A row that ``repair`` marked
    ``failed`` with reason ``lost`` keeps its scores as history; only ``done`` rows count as results.
    ``blobs`` holds what is still kept; what retention released or damage took is gone from it.
    """

    id: str
    run_id: str
    individual_id: str
    fidelity: str
    seed: int
    attempt: int
    state: EvaluationState
    reason: str | None
    detail: str
    scores: dict[str, Score]
    cost: dict[str, Any]
    extra: dict[str, Any]
    seconds: float
    blobs: dict[str, str]
    finished_seq: int | None
    started_at: str
    finished_at: str | None


@dataclass(frozen=True)
class RunRow:
    """A recorded run. ``state`` is what was last written: a run that was killed still says ``running``."""

    id: str
    kind: str
    recipe: str
    settings: dict[str, Any]
    seed: int
    space: Any
    versions: dict[str, Any]
    state: RunState
    created_seq: int
    created_at: str
    finished_at: str | None


@dataclass(frozen=True)
class EventRow:
    """Something that happened; ``seq`` grows over the whole store, ``at`` (UTC) is for people only."""

    seq: int
    run_id: str | None
    at: str
    type: str
    subject: str
    payload: dict[str, Any]


@dataclass(frozen=True)
class Lease:
    """The right to write to one run; a higher token makes every lower one worthless."""

    run_id: str
    token: int


@dataclass(frozen=True)
class Found:
    """What a prefix stands for."""

    kind: Literal["run", "individual"]
    id: str


@dataclass(frozen=True)
class Problem:
    """One thing that is not as it was written: a database, a row, or a blob."""

    kind: Literal["database", "row", "blob"]
    subject: str
    message: str


@dataclass(frozen=True)
class CheckReport:
    """What ``check`` looked at and found."""

    blobs: int
    bytes: int
    deep: bool
    problems: tuple[Problem, ...]

    @property
    def ok(self) -> bool:
        """Nothing is wrong."""
        return not self.problems

    def require(self) -> None:
        """Raises:
        StoreDamagedError: something is wrong; the first five problems and the command that repairs.
        """
        if self.problems:
            lines = "; ".join(f"{problem.subject}: {problem.message}" for problem in self.problems[:5])
            more = f" (and {len(self.problems) - 5} more)" if len(self.problems) > 5 else ""
            raise StoreDamagedError(f"the store is damaged: {lines}{more}. Next: evodevo repair.")


@dataclass(frozen=True)
class RepairReport:
    """What ``repair`` did: blobs set aside, evaluations to be done again, what it could not mend."""

    quarantined: tuple[str, ...]
    lost_evaluations: tuple[str, ...]
    remaining: tuple[Problem, ...]


@dataclass(frozen=True)
class GarbageReport:
    """What ``gc`` removed (or would remove): blobs nobody refers to, leftover temporary files, bytes."""

    blobs: tuple[str, ...]
    temporary: int
    bytes: int


def sha256(data: bytes) -> str:
    """The digest that names a blob: 64 hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()

"""The records that the store writes and reads, and the derivation of ids.

All records are frozen values. JSON here means data with a canonical form (``evodevo.canonical``): no NaN.
"""

from __future__ import annotations

import hashlib
import math
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar, get_args

from evodevo import canonical
from evodevo.errors import StoreDamagedError, UsageError

T = TypeVar("T")
Progress = Callable[[int, int], None]
"""Called with the bytes that are done, and all; from time to time."""
RunState = Literal["running", "finished", "interrupted", "failed"]
EvaluationState = Literal["running", "done", "failed", "stale"]
Outcome = Literal["done", "failed"]
Status = Literal["ok", "nan", "inf", "neginf", "diverged", "missing"]
_STATUSES = frozenset(get_args(Status))

RESUMED = "resumed"
"""Key in the facts of an evaluation: the digest of the checkpoint from which it went on."""
MAX_DETAIL = 4096
ROLES = "abcdefghijklmnop"


def quiet(done: int, whole: int) -> None:
    """Progress that is not shown."""


def new_run_id() -> str:
    """``r`` and twelve random hexadecimal digits. All other ids are derived from this one, so a resume repeats them."""
    return "r" + secrets.token_hex(6)


def individual_id(run_id: str, birth: str) -> str:
    """Twelve hexadecimal digits, derived from the run and the birth key.

    Args:
        run_id: Id of the individual's run.
        birth: Key of the individual, unique in the run, for example ``"3/7"`` for generation 3, slot 7.
    """
    return canonical.digest([run_id, birth])[:12]


def evaluation_id(individual: str, fidelity: str, seed: int, attempt: int) -> str:
    """Sixteen hexadecimal digits, derived from individual, fidelity, seed and attempt."""
    return canonical.digest([individual, fidelity, seed, attempt])[:16]


@dataclass(frozen=True)
class Score:
    """The result for one objective: a finite number, or the status that explains why there is none.

    Raises:
        UsageError: There is a number with a status other than ``ok``, none with ``ok``, or one that is not finite.
    """

    value: float | None
    status: Status = "ok"

    def __post_init__(self) -> None:
        if self.status not in _STATUSES:
            raise UsageError(f"unknown score status {self.status!r}; known: {', '.join(get_args(Status))}.")
        if (self.status == "ok") != (self.value is not None):
            raise UsageError(f"a score is a number with status ok, or a status alone; got {self.value}, {self.status}.")
        if self.value is not None:
            number = float(self.value)
            if not math.isfinite(number):
                raise UsageError(f"{number} is no score; Score.of turns it into a status.")
            # SQLite does not store the sign of zero; adding 0.0 drops it here, so that a row reads as it was written.
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
        id: Id, which must equal ``individual_id(run_id, birth)``.
        birth: Key that is unique in the run.
        generation: Number of the generation, or of the event in steady state.
        slot: Position within the generation, from 0.
        genome_envelope: Genome as JSON data (space, version, genes).
        genome_hash: The space's hash of the genome.
        operation: Operation that made it ("initial", "crossover", ...).
        details: JSON data about the operation.
        parents: Ids in role order a, b, ...; they may belong to another run of this store.
        seed: Seed of the individual's training, in [0, 2**63).
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
    """A recorded individual; ``created_seq`` is the number of the event that added it."""

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

    def detail(self, name: str, read: Callable[[Any], T]) -> T:
        """One of the details of its birth, which must be there; see ``EvaluationRow.fact``."""
        return _read(f"individual {self.id}", self.details, name, read)

    @property
    def operations(self) -> list[str]:
        """The mutations that it was made by, in order; empty without any, and where none were recorded."""
        return self.detail("operations", names_of) if "operations" in self.details else []


@dataclass(frozen=True)
class Parent:
    """One edge of the ancestry graph: a child, one of its parents, and the parent's role (a, b, ...)."""

    child_id: str
    parent_id: str
    role: str


@dataclass(frozen=True)
class Evaluation:
    """The whole outcome of one evaluation, written in one transaction.

    Args:
        individual_id: Id of the evaluated individual.
        fidelity: Key of data and training for which the scores hold, as text ("tokens=200000").
        seed: Seed of the evaluation, in [0, 2**63).
        attempt: Number that ``start_evaluation`` returned, from 1 (1 where it was not called).
        state: ``done`` or ``failed``.
        reason: Reason of a failure in one word ("timeout"); None when done.
        detail: Explanation for people; only the last 4,096 characters are stored.
        scores: Objective -> score.
        cost: Static cost record, JSON.
        extra: Further facts, JSON.
        seconds: Wall time of the evaluation in seconds, >= 0.
        blobs: Role -> digest of a blob that is in the pool already.
        series: Name -> points (x, y); y may be non-finite, for example in the curve of a diverged training.
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
        """Id of the evaluation's row."""
        return evaluation_id(self.individual_id, self.fidelity, self.seed, self.attempt)


@dataclass(frozen=True)
class EvaluationRow:
    """A recorded evaluation.

    ``finished_seq`` orders evaluations by completion, and is None while one runs. A row that ``repair`` marked
    ``failed`` with reason ``lost`` keeps its scores as history; only ``done`` rows count as results.
    ``blobs`` has only blobs that are still held, not those that retention released or that were lost by damage.
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

    def fact(self, name: str, read: Callable[[Any], T], default: T) -> T:
        """One of the further facts (``extra``).

        Args:
            name: Its name.
            read: Makes it of JSON; raises KeyError, TypeError, ValueError, or AttributeError where it is another thing.
            default: What it is where it was not recorded.

        Raises:
            StoreDamagedError: It is another thing: somebody changed it, and sealed it anew.
        """
        return default if name not in self.extra else _read(f"evaluation {self.id}", self.extra, name, read)


@dataclass(frozen=True)
class RunRow:
    """A recorded run. ``state`` is the last one written: a run that was killed is still ``running`` here."""

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
    """A recorded event; ``seq`` grows over the whole store, ``at`` (UTC) is for display only."""

    seq: int
    run_id: str | None
    at: str
    type: str
    subject: str
    payload: dict[str, Any]

    def fact(self, name: str, read: Callable[[Any], T]) -> T:
        """One of the facts that every event of its type has; see ``EvaluationRow.fact``."""
        return _read(f"event {self.seq} ({self.type})", self.payload, name, read)


@contextmanager
def as_written(row: str, what: str = "facts") -> Iterator[None]:
    """Reading what evodevo wrote: where it has another shape, somebody changed it and sealed it anew.

    Args:
        row: the row, for the message.
        what: what is read of it.

    Raises:
        StoreDamagedError: in place of the error of a wrong shape.
    """
    try:
        yield
    except (AttributeError, KeyError, IndexError, TypeError, ValueError, OverflowError) as error:
        raise StoreDamagedError(
            f"{row} has {what} that evodevo did not write "
            f"({type(error).__name__}: {str(error)[:200]}). Next: evodevo store check; backups lie in backups/."
        ) from None


def _read(row: str, facts: Mapping[str, Any], name: str, read: Callable[[Any], T]) -> T:
    with as_written(row, f"a {name!r} among its facts"):
        return read(facts[name])


def names_of(value: Any) -> list[str]:
    """A list of names out of JSON.

    Raises:
        TypeError: it is something else.
    """
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise TypeError(f"{type(value).__name__} in place of a list of names")
    return value


@dataclass(frozen=True)
class Lease:
    """The right to write to one run; acquiring it anew raises the token, and lower tokens are refused from then on."""

    run_id: str
    token: int


@dataclass(frozen=True)
class PrefixMatch:
    """The run or individual whose id begins with a prefix."""

    kind: Literal["run", "individual"]
    id: str


@dataclass(frozen=True)
class Damage:
    """A damaged database, row, or blob."""

    kind: Literal["database", "row", "blob"]
    subject: str
    message: str


@dataclass(frozen=True)
class CheckReport:
    """The result of ``check``.

    Attributes:
        blobs: Number of checked blobs.
        bytes: Bytes of these blobs.
        deep: Whether blobs were hashed and all rows read.
        problems: The damage found.
        sealed: Whether the rows have seals to be compared with; those of an older evodevo have none.
    """

    blobs: int
    bytes: int
    deep: bool
    problems: tuple[Damage, ...]
    sealed: bool = True

    @property
    def ok(self) -> bool:
        """Whether there is no problem."""
        return not self.problems

    def require(self) -> None:
        """Raise an error where there is a problem.

        Raises:
            StoreDamagedError: The store is damaged; the message has the first five problems and the repair command.
        """
        if self.problems:
            lines = "; ".join(f"{problem.subject}: {problem.message}" for problem in self.problems[:5])
            more = f" (and {len(self.problems) - 5} more)" if len(self.problems) > 5 else ""
            raise StoreDamagedError(f"the store is damaged: {lines}{more}. Next: evodevo repair.")


@dataclass(frozen=True)
class RepairReport:
    """The result of ``repair``: quarantined blobs, evaluations to repeat, problems that remain."""

    quarantined: tuple[str, ...]
    lost_evaluations: tuple[str, ...]
    remaining: tuple[Damage, ...]


@dataclass(frozen=True)
class GarbageReport:
    """The result of ``gc``, as removed or to be removed: unreferenced blobs, number of leftover temporary files, bytes
    in all.

    ``undated`` is the number of unreferenced blobs that stay because what holds them does not tell their age.
    """

    blobs: tuple[str, ...]
    temporary: int
    bytes: int
    undated: int = 0


def sha256(data: bytes) -> str:
    """The digest of a blob, which is its name: 64 hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()

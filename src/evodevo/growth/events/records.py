"""Records of a growth: events, probes and rewards, and the memory that the next event depends on. Plain data."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict
from typing import Any, Self

from pydantic import Field

from evodevo.growth.caps.records import FallRecord
from evodevo.growth.compute_budget import Portions
from evodevo.growth.edit_spec import Edit
from evodevo.growth.fitness import FitnessHistory
from evodevo.growth.forks.records import ForkRecord
from evodevo.growth.probes import ModuleProbe
from evodevo.growth.races.records import RaceRecord
from evodevo.growth.rewards import RewardScale, RewardState
from evodevo.growth.shifts.records import ShiftRecord
from evodevo.growth.strategists.gains.record import MeasuredGain
from evodevo.growth.strategists.state import State
from evodevo.growth.strategists.transition import Decision
from evodevo.module_zoo.modules.spec import ModuleGenotype
from evodevo.settings import Settings


class StoredRewardState(Settings):
    """``rewards.RewardState`` as plain data that can be stored."""

    value: float
    loss: float
    cost: float
    novelty: float = 0.0
    diversity: float = 0.0
    entropy: float = 0.0
    parameters: float = 0.0

    @classmethod
    def of(cls, state: RewardState) -> Self:
        """Convert from a ``RewardState``."""
        return cls(**asdict(state))

    @property
    def reward_state(self) -> RewardState:
        """Convert back to a ``RewardState``."""
        return RewardState(**self.model_dump())


class ModuleRow(Settings):
    """One module at an event, for the timeline.

    Attributes:
        id: Id of the module.
        usage, contribution, impact, fitness: Values at the event, before its edits (66, 69, 68, 71).
        age: Number of events since its birth.
    """

    id: str
    usage: float
    contribution: float
    impact: float
    fitness: float
    age: int


class LookRecord(Settings):
    """A probe between two events, or after the training.

    Attributes:
        step, share: Training step and share of the budget at which it was made.
        modules: Values of each module.
        value, loss: Metric and loss in nats on the split ``architecture``.
    """

    step: int = Field(ge=0)
    share: float = Field(ge=0)
    modules: tuple[ModuleRow, ...]
    value: float
    loss: float


class EventRecord(Settings):
    """One event.

    Attributes:
        number: Number of the event, from 1.
        step, share: Training steps made, and the share of the budget that was used up after its edits.
        modules: Values of each module before the edits.
        value, loss: Metric (higher is better) and loss in nats before the edits, on the split ``architecture``.
        decisions: Decisions of the strategist, the last ``noop`` included.
        edits: Edits that followed, refused ones included.
        warms: Whether the warm-up of some module begins.
        learnt: Metrics of the strategist's update on the event before, by name.
        portions: Limits of the event and of what follows until the next one.
        flops: FLOPs of its probe, of distillation, and of the strategist's own gradient.
        fork: Fork that decided on its edits; None where there was none.
        fall: The fall of a cap that this event is; nobody decides there but the caps. None for other events.
        shift: The shift of the data that this event is; its race decides. None for other events.
    """

    number: int = Field(ge=1)
    step: int = Field(ge=0)
    share: float = Field(ge=0)
    modules: tuple[ModuleRow, ...]
    value: float
    loss: float
    decisions: tuple[Decision, ...]
    edits: tuple[Edit, ...]
    warms: bool = False
    learnt: dict[str, float] = Field(default_factory=dict)
    portions: Portions | None = None
    flops: float = Field(default=0.0, ge=0)
    fork: ForkRecord | None = Field(default=None, exclude_if=lambda value: value is None)
    fall: FallRecord | None = Field(default=None, exclude_if=lambda value: value is None)
    shift: ShiftRecord | None = Field(default=None, exclude_if=lambda value: value is None)

    @property
    def born(self) -> tuple[str, ...]:
        """Ids of newborns."""
        return tuple(edit.module for edit in self.edits if edit.born and edit.module is not None)

    @property
    def race(self) -> RaceRecord | None:
        """The race that was the event; None for an event of the strategist."""
        return self.fall or self.shift

    @property
    def gone(self) -> tuple[str, ...]:
        """Ids of the modules that were removed."""
        return tuple(edit.module for edit in self.edits if edit.action.operation == "prune" and edit.module is not None)


class RewardRecord(Settings):
    """The reward of an event.

    Attributes:
        number: Number of the event.
        value, loss: Metric and loss in nats when its horizon was over.
        terms: Summands of the reward, by name.
    """

    number: int = Field(ge=1)
    value: float
    loss: float
    terms: dict[str, float]

    @property
    def total(self) -> float:
        """Sum of the terms: r_t."""
        return sum(self.terms.values())


class Pending(Settings):
    """An event without a reward yet, or with one that waits for the state at the next event.

    Attributes:
        number: Number of the event.
        state, decisions: State before its edits, and the strategist's decisions.
        children: Genotypes of newborns, by the index of their decision.
        before: Metric, loss and cost before its edits.
        curve: Values of the metric since its edits.
        cost: FLOPs of one sample after its edits.
        share, flops, rise: Share of the budget used up before its edits, FLOPs of one training sample then, and rise of
            the metric until then (``growth.price``); None where FLOPs have no price in steps, or no rise was seen.
        reward: Reward of the event; None until it is known.
        gain: What a fork measured of its edits; None where none did.
    """

    number: int
    state: State
    decisions: tuple[Decision, ...]
    children: dict[int, ModuleGenotype] = Field(default_factory=dict)
    before: StoredRewardState
    curve: tuple[float, ...] = ()
    cost: float = 0.0
    share: float | None = Field(default=None, exclude_if=lambda value: value is None)
    flops: float | None = Field(default=None, exclude_if=lambda value: value is None)
    rise: float | None = Field(default=None, exclude_if=lambda value: value is None)
    reward: float | None = None
    gain: MeasuredGain | None = Field(default=None, exclude_if=lambda value: value is None)


class BankedModule(Settings):
    """A module in the bank; its weights lie in a blob."""

    name: str
    genotype: ModuleGenotype
    digest: str


class GrowthMemory(Settings):
    """Everything that the next event depends on, beside the network itself.

    Attributes:
        history: Moving averages of the live modules.
        low: Events in a row in which a module was below the prune rule's bound, by id.
        values: Metric at each event so far.
        shares: Share of the budget at each of them; not in records of before.
        warming: Share of the budget at which a birth factor began to rise, by module id.
        rewarming: Share of the budget at which a learning rate was lowered again, by module id.
        scale: Scale of the rewards.
        pending: The last event, until the strategist has learned from it.
        bank: Removed modules, the oldest first.
        strategist: Plain half of the strategist's state; its tensors lie in the blob ``strategist_blob``.
        learned_blob: Digest of the memory of edits, those of this run included.
        blobs: Digests of the blobs that the log names: weights of parents.
        portions: Limits of probes and distillation until the next event; None, for no limits, before the first.
        falls: Number of falls of a cap so far.
        refused: How often forks have refused an edit around the modules, by operation.
    """

    history: FitnessHistory = FitnessHistory()
    low: dict[str, int] = Field(default_factory=dict)
    values: tuple[float, ...] = ()
    shares: tuple[float, ...] = Field(default=(), exclude_if=lambda value: not value)
    warming: dict[str, float] = Field(default_factory=dict)
    rewarming: dict[str, float] = Field(default_factory=dict)
    scale: RewardScale = RewardScale()
    pending: Pending | None = None
    bank: tuple[BankedModule, ...] = ()
    strategist: dict[str, Any] = Field(default_factory=dict)
    strategist_blob: str | None = None
    learned_blob: str | None = None
    blobs: tuple[str, ...] = ()
    portions: Portions | None = None
    falls: int = Field(default=0, ge=0, exclude_if=lambda value: not value)
    refused: dict[str, int] = Field(default_factory=dict, exclude_if=lambda value: not value)

    @property
    def digests(self) -> list[str]:
        """Digests of all blobs that a run needs to go on."""
        others = (self.strategist_blob, self.learned_blob, *(entry.digest for entry in self.bank))
        return sorted({*self.blobs, *(other for other in others if other is not None)})

    def with_pending(self, **changes: object) -> Self:
        """The memory with these changes of the event that waits for its reward or for the next event."""
        assert self.pending is not None, "there was an event"
        return self.model_copy(update={"pending": self.pending.model_copy(update=changes)})

    def only(self, live: Collection[str]) -> Self:
        """The memory without counts and warm-ups of modules that are gone."""
        kinds = ("low", "warming", "rewarming")
        return self.model_copy(
            update={
                kind: {name: value for name, value in getattr(self, kind).items() if name in live} for kind in kinds
            }
        )


def module_rows(probe: ModuleProbe, history: FitnessHistory, ages: Mapping[str, int]) -> tuple[ModuleRow, ...]:
    """The rows of one event in the timeline."""
    return tuple(
        ModuleRow(
            id=name,
            usage=probe.usage[name],
            contribution=history.modules[name].contribution,
            impact=probe.impact[name],
            fitness=history.modules[name].fitness,
            age=ages[name],
        )
        for name in probe.ids
    )

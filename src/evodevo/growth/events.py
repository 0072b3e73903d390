"""What is recorded of a growth: events as they came, and everything that the next one depends on. Plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Self

from pydantic import Field

from evodevo.growth.edit_spec import Edit
from evodevo.growth.fitness import History
from evodevo.growth.probes import Probe
from evodevo.growth.rewards import Scale, Standing
from evodevo.growth.strategists.state import State
from evodevo.growth.strategists.transition import Decision
from evodevo.growth.thrift import Portions
from evodevo.module_zoo.modules.spec import ModuleGenotype
from evodevo.settings import Settings


class Stood(Settings):
    """``rewards.Standing`` as plain data."""

    value: float
    loss: float
    cost: float
    novelty: float = 0.0
    diversity: float = 0.0
    entropy: float = 0.0
    parameters: float = 0.0

    @classmethod
    def of(cls, standing: Standing) -> Self:
        """From where a zoo stands."""
        return cls(**asdict(standing))

    @property
    def standing(self) -> Standing:
        """Back again."""
        return Standing(**self.model_dump())


class ModuleRow(Settings):
    """A module at an event, for the timeline.

    Attributes:
        id: of it.
        usage, contribution, impact, fitness: as the event found them (66, 69, 68, 71).
        age: events that it had lived.
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
        step, share: at which it came.
        modules: as it found them.
        value, loss: of the zoo on the split ``architecture``.
    """

    step: int = Field(ge=0)
    share: float = Field(ge=0)
    modules: tuple[ModuleRow, ...]
    value: float
    loss: float


class EventRecord(Settings):
    """One event.

    Attributes:
        number: from 1.
        step, share: at which it came: steps made, and the share of the budget that was used up after its edits.
        modules: before its edits.
        value, loss: of the zoo before its edits, on the split ``architecture``; higher values are better.
        decisions: of the strategist, the last ``noop`` included.
        edits: what came of them, refusals included.
        warms: somebody's warm-up begins.
        learnt: numbers of what the strategist learnt from the event before.
        portions: what it might use, with what follows until the next one.
        flops: of its probe, of distillation, and of the strategist's own gradient.
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

    @property
    def born(self) -> tuple[str, ...]:
        """Ids of newborns."""
        return tuple(one.module for one in self.edits if one.after is not None and one.module is not None)

    @property
    def gone(self) -> tuple[str, ...]:
        """Ids of those who went."""
        return tuple(one.module for one in self.edits if one.action.operation == "prune" and one.module is not None)


class RewardRecord(Settings):
    """What an event was worth.

    Attributes:
        number: of the event.
        value, loss: of the zoo when its horizon was over.
        terms: name -> what it added.
    """

    number: int = Field(ge=1)
    value: float
    loss: float
    terms: dict[str, float]

    @property
    def total(self) -> float:
        """r_t."""
        return sum(self.terms.values())


class Pending(Settings):
    """An event that has no reward yet, or that waits for the state at the next one.

    Attributes:
        number: of it.
        state, decisions: at it.
        children: newborns by the place of their decision.
        before: how the zoo stood.
        curve: values of the metric since its edits.
        cost: FLOPs of one sample after its edits.
        reward: once it is known.
    """

    number: int
    state: State
    decisions: tuple[Decision, ...]
    children: dict[int, ModuleGenotype] = Field(default_factory=dict)
    before: Stood
    curve: tuple[float, ...] = ()
    cost: float = 0.0
    reward: float | None = None


class Kept(Settings):
    """A module in the bank, whose weights lie in a blob."""

    name: str
    genotype: ModuleGenotype
    digest: str


class GrowthMemory(Settings):
    """Everything that the next event depends on, beside the zoo itself.

    Attributes:
        history: of the live modules.
        low: of the prune rule, for the next event.
        values: of the metric at the events.
        warming: id -> share at which its birth factor began to rise.
        rewarming: id -> share at which its learning rate was lowered again.
        scale: of rewards.
        pending: the last event.
        bank: the oldest first.
        strategist: plain half of what it has learnt; its tensors lie in the blob ``strategist_blob``.
        learned_blob: the memory of edits, with those of this run.
        blobs: of the log: the weights of parents.
        portions: what probes and lessons may use until the next event; all that was wished before the first.
    """

    history: History = History()
    low: dict[str, int] = Field(default_factory=dict)
    values: tuple[float, ...] = ()
    warming: dict[str, float] = Field(default_factory=dict)
    rewarming: dict[str, float] = Field(default_factory=dict)
    scale: Scale = Scale()
    pending: Pending | None = None
    bank: tuple[Kept, ...] = ()
    strategist: dict[str, Any] = Field(default_factory=dict)
    strategist_blob: str | None = None
    learned_blob: str | None = None
    blobs: tuple[str, ...] = ()
    portions: Portions | None = None

    @property
    def digests(self) -> list[str]:
        """All blobs that a run needs to go on."""
        others = (self.strategist_blob, self.learned_blob, *(one.digest for one in self.bank))
        return sorted({*self.blobs, *(one for one in others if one is not None)})


def module_rows(probe: Probe, history: History, ages: Mapping[str, int]) -> tuple[ModuleRow, ...]:
    """The timeline of one event."""
    return tuple(
        ModuleRow(
            id=one,
            usage=probe.usage[one],
            contribution=history.modules[one].contribution,
            impact=probe.impact[one],
            fitness=history.modules[one].fitness,
            age=ages[one],
        )
        for one in probe.ids
    )

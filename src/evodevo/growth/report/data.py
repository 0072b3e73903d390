"""The growth of a zoo as objects: modules and their lifetimes, edits, and rewards."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from evodevo.growth.edit_spec import Edit
from evodevo.growth.spec import REPLACE, PruneSettings
from evodevo.module_zoo.modules.spec import ModuleGenotype, ZooModule

Measure = Literal["contribution", "usage", "impact", "fitness"]
MEASURES: tuple[Measure, ...] = ("contribution", "usage", "impact", "fitness")
BIRTHS = ("grow", "spawn", "hybridise", REPLACE)
UNUSED = PruneSettings().usage
"""Mean router weight below which a module is unused."""
GIVES_PLACE = "gives its place to "
"""Beginning of the note that ``growth.edits`` writes on a pruning that makes room."""


@dataclass(frozen=True)
class Sight:
    """A module's measures at a probe.

    Attributes:
        step, share: step of the training, and share of its budget, 0 to 1; None where it was not recorded.
        event: number of the event; None between events.
        values: measure -> value; measures that were not taken are missing.
    """

    step: float
    share: float | None
    event: int | None
    values: Mapping[Measure, float]


@dataclass(frozen=True)
class Life:
    """A module from its birth to its end.

    Attributes:
        id, archetype: id and archetype of the module.
        genotype: None where it was not recorded.
        operation: ``start``, ``grow``, ``spawn``, ``hybridise``, ``replace``.
        parents: ids.
        born, gone: numbers of the events; 0 is the start, None lives on.
        born_step, gone_step: steps of the training.
        heir: id of the module that took its place.
        sights: its probes in order of time.
        note: note on its birth.
        enlarged: (step, operation) of each edit in place, in order of time.
    """

    id: str
    archetype: str
    genotype: ModuleGenotype | None = None
    operation: str = "start"
    parents: tuple[str, ...] = ()
    born: int = 0
    born_step: float = 0.0
    gone: int | None = None
    gone_step: float | None = None
    heir: str = ""
    sights: tuple[Sight, ...] = ()
    note: str = ""
    enlarged: tuple[tuple[float, str], ...] = ()

    def last(self, measure: Measure) -> float | None:
        """The latest value; None where none is known."""
        return next((sight.values[measure] for sight in reversed(self.sights) if measure in sight.values), None)


@dataclass(frozen=True)
class Happening:
    """An event.

    Attributes:
        number, step, share: number and step of the event, and share of the budget after its edits, 0 to 1.
        value, loss: score and loss of the zoo before its edits, on the split ``architecture``.
        edits: its edits, refused ones too.
        reward: None where none was recorded.
        terms: name -> summand of the reward.
    """

    number: int
    step: float
    share: float
    value: float
    loss: float
    edits: tuple[Edit, ...]
    reward: float | None = None
    terms: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class GrowthHistory:
    """The growth of one training.

    Attributes:
        strategist: name of the strategist.
        events: the events, in order.
        lives: all modules that were ever there, in order of birth.
        steps: number of steps of the whole training.
        decisions: number of decisions of the strategist.
        differing: event, action and the heuristic's action; None where they were not compared.
        overhead: name -> number, from the evaluation.
        probes: (step, value) of the zoo on the split ``architecture``, at events and between them.
        race: the race before it, as ``growth.training.starting_race`` records it; None where none was wanted.
        forks: its forks, as the fact ``growth.forks`` has them; None where none were wanted.
        caps: limits, falls and costs where a cap fell, as the fact ``growth.caps`` has them; None where none did.
        shift: the shift of the data, as the facts of a growth have it; None where they did not shift.
        policy: runs and rewards of the policy before this run, and the reason of one that began anew; None without a
            memory.
        foresight: how well its strategist's memory foresees gains, as the fact has it; None where it foresees none.
    """

    strategist: str
    events: tuple[Happening, ...]
    lives: tuple[Life, ...]
    steps: float
    decisions: int
    differing: tuple[Mapping[str, Any], ...]
    overhead: Mapping[str, float]
    probes: tuple[tuple[float, float], ...] = ()
    race: Mapping[str, Any] | None = None
    forks: Mapping[str, Any] | None = None
    caps: Mapping[str, Any] | None = None
    shift: Mapping[str, Any] | None = None
    policy: Mapping[str, Any] | None = None
    foresight: Mapping[str, Any] | None = None

    @cached_property
    def edits(self) -> tuple[Edit, ...]:
        """Edits of all events; refused ones too."""
        return tuple(edit for event in self.events for edit in event.edits)

    @cached_property
    def accepted(self) -> tuple[Edit, ...]:
        """Those that changed something."""
        return tuple(edit for edit in self.edits if edit.module is not None)

    @property
    def refused(self) -> int:
        """Wanted and not done."""
        return len(self.edits) - len(self.accepted)

    @cached_property
    def counts(self) -> Counter[str]:
        """Operation -> how often it was done."""
        return Counter(edit.action.operation for edit in self.accepted)

    @property
    def births(self) -> int:
        """Newborns of any kind."""
        return sum(self.counts[birth] for birth in BIRTHS)

    @property
    def replaced(self) -> int:
        """Those of the prunings that made room for a newborn."""
        return sum(bool(life.heir) for life in self.lives)

    @cached_property
    def living(self) -> tuple[Life, ...]:
        """Modules in the end."""
        return tuple(life for life in self.lives if life.gone is None)

    @property
    def begun(self) -> tuple[str, ...]:
        """Ids of the modules before the first event."""
        return tuple(life.id for life in self.lives if life.operation == "start")

    @property
    def hybrids(self) -> tuple[Life, ...]:
        """Newborns of two parents."""
        return tuple(life for life in self.lives if life.operation == "hybridise")

    @property
    def rewards(self) -> tuple[float, ...]:
        """Rewards of the events that have one."""
        return tuple(event.reward for event in self.events if event.reward is not None)

    def carries_weight(self, life: Life) -> bool:
        """Whether a module is there in the end, and its last router weight is known and not that of an unused one."""
        last = life.last("usage")
        return life.gone is None and last is not None and last >= UNUSED

    def events_lived(self, life: Life) -> int:
        """Number of events after its birth that a module survived."""
        until = len(self.events) + 1 if life.gone is None else life.gone
        return sum(life.born < event.number < until for event in self.events)


def modules_after(start: Iterable[ZooModule], edits: Iterable[Edit]) -> tuple[ZooModule, ...]:
    """The modules after the edits, in the order of the zoo.

    Args:
        start: modules before the first event.
        edits: edits of the log, in order; refused ones change nothing.
    """
    modules = {module.id: module for module in start}
    for edit in edits:
        if edit.module is None:
            continue
        if edit.action.operation == "prune":
            modules.pop(edit.module, None)
        elif edit.enlarged and edit.module in modules:
            modules[edit.module] = modules[edit.module].model_copy(update={"genotype": edit.after})
        elif edit.after is not None:
            modules[edit.module] = ZooModule(
                id=edit.module,
                genotype=edit.after,
                seed=edit.seed,
                parents=edit.parents,
                birth_event=edit.event,
            )
    return tuple(modules.values())

"""State of a network and legal actions, the input of a strategist (Architect Thyself eq. 65, appendix H).

Source: docs/spec/architect_thyself.md#strategists.

Plain values, so that a decision can be stored and judged again: by the next update, and by the next run.

Legend: N modules.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any, Self

from pydantic import Field, model_validator

from evodevo.growth.around.base import AROUND
from evodevo.growth.edit_spec import Action
from evodevo.growth.spec import OPERATIONS, REPLACE, Operation
from evodevo.settings import Settings

BIRTHS: tuple[Operation, ...] = ("grow", "spawn", "hybridise")
VALUES = 5
"""Largest number of validation values in a state."""
SPREAD = 4.0
"""The scale of a mutation lies between 1 / ``SPREAD`` and ``SPREAD``, and its logarithm is what is chosen."""


class ModuleState(Settings):
    """Values of one module; 0 where nothing was measured yet.

    Attributes:
        id: Id of the module.
        archetype: Family of the module, or ``hybrid``.
        vector: Vector of its genotype (``module_zoo.modules.vector``).
        parameters, flops: Number of parameters; FLOPs of one sample.
        age: Number of events since its birth.
        usage: Mean routing weight (66).
        impact: Loss without it minus loss with it, in nats (68); positive where it helps.
        contribution, fitness: C (69) and F (71).
        spread: Running standard deviation of F.
        redundancy: Mean similarity to the others, in [0, 1] (70).
        dropout: Dropout of its units in training, 0 to 1.
        warming: Whether its birth factor still rises.
        candidate: Whether the prune rule proposes it.
    """

    id: str
    archetype: str
    vector: tuple[float, ...]
    parameters: int = Field(default=0, ge=0)
    flops: float = Field(default=0.0, ge=0)
    age: int = Field(default=0, ge=0)
    usage: float = 0.0
    impact: float = 0.0
    contribution: float = 0.0
    fitness: float = 0.0
    spread: float = Field(default=0.0, ge=0)
    redundancy: float = 0.0
    dropout: float = Field(default=0.0, ge=0, le=1)
    warming: bool = False
    candidate: bool = False


class State(Settings):
    """The state S_t (65).

    Attributes:
        modules: Modules, in any order: strategists do not depend on it.
        most: Largest number of modules (N_max).
        budget: Share of the budget that is left, 0 to 1.
        progress: Share of the training that is over, 0 to 1.
        values: Validation metric at the last events, oldest first; higher is better; the last ``VALUES`` count.
        diversity: D(M) (19).
        complementarity: Table (N, N), symmetric, in the order of ``modules``; empty where it is not known.
    """

    modules: tuple[ModuleState, ...]
    most: int = Field(ge=1)
    budget: float = Field(default=1.0, ge=0, le=1)
    progress: float = Field(default=0.0, ge=0, le=1)
    values: tuple[float, ...] = ()
    diversity: float = 0.0
    complementarity: tuple[tuple[float, ...], ...] = ()

    @model_validator(mode="after")
    def _fits(self) -> Self:
        count = len(self.modules)
        if len({module.id for module in self.modules}) != count:
            raise ValueError("two modules have one id")
        if self.complementarity and [len(row) for row in self.complementarity] != [count] * count:
            raise ValueError(f"complementarity is ({count}, {count}) for {count} modules")
        return self

    @property
    def slopes(self) -> tuple[float, ...]:
        """Changes of validation between the events that are kept."""
        seen = self.values[-VALUES:]
        return tuple(later - earlier for earlier, later in pairwise(seen))

    def plateaued(self, events: int, tolerance: float) -> bool:
        """Whether validation rose by at most the tolerance at each of the last events; False where fewer are known."""
        last = self.slopes[-events:] if events else ()
        return len(last) == events and all(slope <= tolerance for slope in last)

    def place(self, module: str) -> int:
        """The index of a module in ``modules``."""
        return next(place for place, candidate in enumerate(self.modules) if candidate.id == module)

    def complement(self, first: str, second: str) -> float:
        """Complementarity of two modules; 0 where it is not known."""
        return self.complementarity[self.place(first)][self.place(second)] if self.complementarity else 0.0

    def permuted(self, order: Sequence[int]) -> State:
        """The same state with its modules in another order: index i holds the module of ``order[i]``."""
        matrix = tuple(tuple(self.complementarity[i][j] for j in order) for i in order) if self.complementarity else ()
        modules = tuple(self.modules[index] for index in order)
        return self.model_copy(update={"modules": modules, "complementarity": matrix})


class Legal(Settings):
    """The actions that are legal now; ``noop`` always is.

    Attributes:
        prune, grow, rewarm: Ids of modules that may be pruned, be a parent, or be warmed again.
        hybridise: Ordered pairs of ids: the one that keeps its frame, and the donor of a motif.
        spawn: Families that may be spawned.
        in_place: Edits in place that are open, each with the ids of modules that admit it.
        around: Edits around the modules that are open.
        replace: Pairs of a module that may be replaced and the family that may take its place. An event has births or
            one replacement.
        births: Number of births left in this event.
        prunes: Number of prunings left in this event.
        replaces: Id of the module that a birth replaces where the zoo is full; None where there is room.
        replacing_prunes: Whether a birth that replaces a module is one of the prunings.
        reasons: Reason why something is illegal, one sentence each, by operation or ``operation:module``.
    """

    prune: tuple[str, ...] = ()
    grow: tuple[str, ...] = ()
    spawn: tuple[str, ...] = ()
    hybridise: tuple[tuple[str, str], ...] = ()
    rewarm: tuple[str, ...] = ()
    in_place: tuple[tuple[str, tuple[str, ...]], ...] = Field(default=(), exclude_if=lambda value: not value)
    around: tuple[str, ...] = Field(default=(), exclude_if=lambda value: not value)
    replace: tuple[tuple[str, str], ...] = Field(default=(), exclude_if=lambda value: not value)
    births: int = Field(default=1, ge=0)
    prunes: int = Field(default=1, ge=0)
    replaces: str | None = None
    replacing_prunes: bool = Field(default=False, exclude_if=lambda value: not value)
    reasons: dict[str, str] = Field(default_factory=dict)

    def targets(self, operation: Operation) -> tuple[Action, ...]:
        """Every legal action of an operation; none where it is illegal."""
        if (operation in BIRTHS and not self.births) or (operation == "prune" and not self.prunes):
            return ()
        if operation in AROUND:
            return (Action(operation=operation),) if operation in self.around else ()
        if operation not in (*OPERATIONS, REPLACE):
            return _actions(operation, dict(self.in_place).get(operation, ()))
        return _actions(operation, () if operation == "noop" else getattr(self, operation))

    @property
    def operations(self) -> tuple[Operation, ...]:
        """Operations with a legal action: ``OPERATIONS`` in order, replacement, edits in place and around modules."""
        every = (*OPERATIONS, REPLACE, *(operation for operation, _ in self.in_place), *self.around)
        return tuple(operation for operation in every if self.targets(operation))

    def allows(self, action: Action) -> bool:
        """Whether an action is legal, whatever its mix and scale."""
        return any(same_target(action, target) for target in self.targets(action.operation))

    def after(self, action: Action) -> Legal:
        """The actions that are legal in the same event after this one; the driver checks caps again.

        A removed module can do nothing more, and a module that was used stays for this event.
        """
        if action.operation == "noop":
            return self
        born, replaced = action.operation in BIRTHS, action.operation == REPLACE
        gone = set(action.modules) if action.operation == "prune" or replaced else set()
        cut = action.operation == "prune"
        if born and self.replaces is not None:
            gone.add(self.replaces)
            cut = self.replacing_prunes
        busy = gone | set(action.modules)
        return self.model_copy(
            update={
                "prune": tuple(name for name in self.prune if name not in busy),
                "grow": tuple(name for name in self.grow if name not in gone),
                "rewarm": tuple(name for name in self.rewarm if name not in busy),
                "in_place": tuple(
                    (operation, tuple(name for name in names if name not in busy)) for operation, names in self.in_place
                ),
                "around": tuple(operation for operation in self.around if operation != action.operation),
                "hybridise": tuple(pair for pair in self.hybridise if not gone & set(pair)),
                "replace": () if born or replaced else tuple(pair for pair in self.replace if pair[0] not in busy),
                "births": 0 if replaced else self.births - born,
                "prunes": max(self.prunes - cut, 0),
                # A removal makes room, unless somebody has it.
                "replaces": None if gone and not replaced else self.replaces,
            }
        )


@lru_cache(maxsize=1024)
def _actions(operation: Operation, targets: tuple[Any, ...]) -> tuple[Action, ...]:
    """One action for each target; cached, since every pass of learning needs them again."""
    if operation == "noop":
        return (Action(operation="noop"),)
    if operation == "spawn":
        return tuple(Action(operation="spawn", archetype=target) for target in targets)
    if operation == "hybridise":
        return tuple(Action(operation="hybridise", modules=pair) for pair in targets)
    if operation == REPLACE:
        return tuple(Action(operation=REPLACE, modules=(name,), archetype=family) for name, family in targets)
    return tuple(Action(operation=operation, modules=(target,)) for target in targets)


def same_target(first: Action, other: Action) -> bool:
    """Whether two actions have the same operation and targets; mix and scale may differ."""
    return (first.operation, first.modules, first.archetype) == (other.operation, other.modules, other.archetype)

"""What a strategist sees of a zoo, and what it may do now (Architect Thyself eq. 65, appendix H).

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

from evodevo.growth.edit_spec import Action
from evodevo.growth.spec import OPERATIONS, Operation
from evodevo.settings import Settings

BIRTHS: tuple[Operation, ...] = ("grow", "spawn", "hybridise")
VALUES = 5
"""Validation values that a strategist sees at most."""
SPREAD = 4.0
"""The scale of a mutation lies between 1 / ``SPREAD`` and ``SPREAD``, and its logarithm is what is chosen."""


class ModuleState(Settings):
    """What is known of one module; 0 where nothing is known yet.

    Attributes:
        id: of the module.
        archetype: its family; ``hybrid`` has none.
        vector: of its genotype (``spaces.zoo_vector``).
        parameters, flops: counts; FLOPs of one sample.
        age: events that it has lived.
        usage: mean routing weight (66).
        impact: loss without it minus loss with it (68); positive: it helps.
        contribution, fitness: C (69) and F (71).
        spread: running standard deviation of F.
        redundancy: mean similarity to the others (70).
        dropout: share of its units that it drops in training.
        warming: its birth factor still rises.
        candidate: the prune rule of the run wants it gone.
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
    """S_t (65).

    Attributes:
        modules: the zoo, in any order: no strategist minds which.
        most: modules at most (N_max).
        budget: share of what growth may cost that is left.
        progress: share of the training that is over.
        values: validation at the last events, oldest first; higher is better; the last ``VALUES`` count.
        diversity: D(M) (19).
        complementarity: (N, N), symmetric, in the order of ``modules``; empty where it is not known.
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
        if len({one.id for one in self.modules}) != count:
            raise ValueError("two modules have one id")
        if self.complementarity and [len(row) for row in self.complementarity] != [count] * count:
            raise ValueError(f"complementarity is ({count}, {count}) for {count} modules")
        return self

    @property
    def slopes(self) -> tuple[float, ...]:
        """Changes of validation between the events that are remembered."""
        seen = self.values[-VALUES:]
        return tuple(later - earlier for earlier, later in pairwise(seen))

    def plateaued(self, events: int, tolerance: float) -> bool:
        """Whether validation rose by at most the tolerance at each of the last events; False where fewer are known."""
        last = self.slopes[-events:] if events else ()
        return len(last) == events and all(slope <= tolerance for slope in last)

    def place(self, module: str) -> int:
        """Where a module stands in ``modules``."""
        return next(place for place, one in enumerate(self.modules) if one.id == module)

    def complement(self, first: str, second: str) -> float:
        """How much two modules complete one another; 0 where it is not known."""
        return self.complementarity[self.place(first)][self.place(second)] if self.complementarity else 0.0

    def permuted(self, order: Sequence[int]) -> State:
        """The same zoo, listed otherwise: place i holds what stood at ``order[i]``."""
        matrix = tuple(tuple(self.complementarity[i][j] for j in order) for i in order) if self.complementarity else ()
        modules = tuple(self.modules[one] for one in order)
        return self.model_copy(update={"modules": modules, "complementarity": matrix})


class Legal(Settings):
    """What may be done now; ``noop`` always may.

    Attributes:
        prune, grow, rewarm: modules that may go, be a parent, or be warmed again.
        hybridise: ordered pairs: who keeps its frame, and who gives a motif.
        spawn: families.
        births: newborns that this event may still have.
        prunes: modules that may still go in it.
        replaces: who goes when somebody is born, where the zoo is full; None where there is room.
        reasons: why something may not be, one sentence each, by operation or ``operation:module``.
    """

    prune: tuple[str, ...] = ()
    grow: tuple[str, ...] = ()
    spawn: tuple[str, ...] = ()
    hybridise: tuple[tuple[str, str], ...] = ()
    rewarm: tuple[str, ...] = ()
    births: int = Field(default=1, ge=0)
    prunes: int = Field(default=1, ge=0)
    replaces: str | None = None
    reasons: dict[str, str] = Field(default_factory=dict)

    def targets(self, operation: Operation) -> tuple[Action, ...]:
        """Every legal action of an operation; none where it is illegal."""
        if (operation in BIRTHS and not self.births) or (operation == "prune" and not self.prunes):
            return ()
        return _actions(operation, () if operation == "noop" else getattr(self, operation))

    @property
    def operations(self) -> tuple[Operation, ...]:
        """Those with something to do, in the order of ``OPERATIONS``."""
        return tuple(one for one in OPERATIONS if self.targets(one))

    def allows(self, action: Action) -> bool:
        """Whether an action is legal, whatever its mix and scale."""
        return any(same_target(action, one) for one in self.targets(action.operation))

    def after(self, action: Action) -> Legal:
        """What is legal in the same event once this is done; caps are the driver's to look at again.

        Who is gone can do nothing more, and who was used stays for this event.
        """
        if action.operation == "noop":
            return self
        born = action.operation in BIRTHS
        gone = set(action.modules) if action.operation == "prune" else set()
        if born and self.replaces is not None:
            gone.add(self.replaces)
        busy = gone | set(action.modules)
        return self.model_copy(
            update={
                "prune": tuple(one for one in self.prune if one not in busy),
                "grow": tuple(one for one in self.grow if one not in gone),
                "rewarm": tuple(one for one in self.rewarm if one not in busy),
                "hybridise": tuple(pair for pair in self.hybridise if not gone & set(pair)),
                "births": self.births - born,
                "prunes": self.prunes - (action.operation == "prune"),
                # Whoever went has made room.
                "replaces": None if gone else self.replaces,
            }
        )


@lru_cache(maxsize=1024)
def _actions(operation: Operation, targets: tuple[Any, ...]) -> tuple[Action, ...]:
    """One action for each target; kept, as every pass of learning asks again."""
    if operation == "noop":
        return (Action(operation="noop"),)
    if operation == "spawn":
        return tuple(Action(operation="spawn", archetype=one) for one in targets)
    if operation == "hybridise":
        return tuple(Action(operation="hybridise", modules=pair) for pair in targets)
    return tuple(Action(operation=operation, modules=(one,)) for one in targets)


def same_target(one: Action, other: Action) -> bool:
    """Whether two actions do the same to the same; mix and scale may differ."""
    return (one.operation, one.modules, one.archetype) == (other.operation, other.modules, other.archetype)

"""The plan of one child of a singlepath agent: its values, its learned rates, its components, and every decision.

Source: docs/spec/munet.md#children. A plan is data: the request is recorded before it is trained, and
each child's outcome can be explained years later.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from evodevo.multitask.genome import Path, Value
from evodevo.multitask.hyperparameters import DATA, MU, Hyperparameters
from evodevo.multitask.search.components import EVERY, ComponentPlan, ComponentSettings, Place, plan_components
from evodevo.multitask.search.mutation import Move, MutationDecision, MutationSettings, Mutator, entry
from evodevo.settings import Settings

if TYPE_CHECKING:
    import numpy as np

Needs = Callable[[Mapping[str, Value]], Sequence[Place]]
"""Places of a path with these values, in order."""


_FINE_TUNED = MutationSettings(forced=("clone:*",), forbidden=("hp:*",))
_SHARED = MutationSettings(forced=("clone:encoder_norm", "clone:head"), forbidden=("*",))
_WHOLE = MutationSettings(forced=(), forbidden=("*",))
_ADAPTED = MutationSettings(forced=("clone:adapter_*", "clone:encoder_norm", "clone:head"), forbidden=("*",))
Beginning = Literal["shared", "fine_tuned", "unshifted", "from_scratch", "adapted"]
"""What a first child begins with; see the fields of these names of ``ChildSettings``."""
_RULES: Mapping[Beginning, MutationSettings] = {
    "shared": _SHARED,
    "fine_tuned": _FINE_TUNED,
    "unshifted": _FINE_TUNED,
    "from_scratch": _FINE_TUNED,
    "adapted": _ADAPTED,
}


class ChildSettings(Settings):
    """The settings of children."""

    mutation: MutationSettings = Field(default=MutationSettings(), description="actions and their rates")
    components: ComponentSettings = Field(
        default=ComponentSettings(), description="source of components that a parent does not have"
    )
    data: Literal["child", "generation"] = Field(
        default="child",
        description="values of ds_ keys: each child's own, mutated from its parent's; or one set for a generation, "
        "mutated from the best path's (the paper's code, whose children share one input pipeline)",
    )
    shared: int | None = Field(
        default=None,
        ge=0,
        exclude_if=lambda value: value is None,
        description="an agent's first children, which share all blocks of another agent's path, with its values, and "
        "train a norm and a head: of the path whose probe is best; or of the joint root that has learned the task, "
        "whose norm and head for it they begin with, and which the very first one shares whole, without training; None "
        "= one where there is such a root, else none",
    )
    fine_tuned: int = Field(
        default=0,
        ge=0,
        exclude_if=lambda value: not value,
        description="children after those, which copy and train all components of their parent, with its values; "
        "where the agent has no path yet, that is the one whose probe is best; the papers have none",
    )

    unshifted: int = Field(
        default=0,
        ge=0,
        exclude_if=lambda value: not value,
        description="children after those, which do the same with training images that are not moved (ds_shift = 0); "
        "none where the agent moves no images, or a joint root has learned its task; the papers have none",
    )
    from_scratch: int = Field(
        default=0,
        ge=0,
        exclude_if=lambda value: not value,
        description="children after those, whose components all begin at random, with the values of the path of "
        "another agent whose probe is best; none where nobody has trained any path that the agent may build on, or a "
        "joint root has learned its task; the papers have none",
    )

    adapted: int = Field(
        default=0,
        ge=0,
        exclude_if=lambda value: not value,
        description="children after those, which share all blocks of another agent's path, that whose probe is best, "
        "with its values, and train narrow residual blocks between them (adapters), a norm and a head; only paths of "
        "convolutions have adapters",
    )
    adapter_width: float = Field(
        default=0.25,
        gt=0,
        le=16,
        exclude_if=lambda value: value == 0.25,
        description="channels inside of an adapter, as a multiple of those that it reads",
    )

    @property
    def firsts(self) -> tuple[Beginning, ...]:
        """Beginnings of an agent's first children, for which nothing is drawn, in order."""
        counts: dict[Beginning, int] = {
            "shared": self.shared or 0,
            "fine_tuned": self.fine_tuned,
            "unshifted": self.unshifted,
            "from_scratch": self.from_scratch,
            "adapted": self.adapted,
        }
        return tuple(name for name, count in counts.items() for _ in range(count))

    def begins(self, earlier: int) -> Beginning | None:
        """Beginning of a child; None = it is drawn. ``earlier``: number of children that the agent has had before."""
        firsts = self.firsts
        return firsts[earlier] if earlier < len(firsts) else None

    @property
    def untrained(self) -> int:
        """An agent's first children that train nothing, where a joint root has learned its task."""
        return int(self.shared is None or self.shared > 0)

    def of_child(self, earlier: int, *, learned: bool = False) -> ChildSettings:
        """The settings of one child; ``earlier`` as above, ``learned``: its parent's head has learned its task."""
        begins = self.begins(earlier)
        if learned and not earlier and begins == "shared":
            return self.model_copy(update={"mutation": _WHOLE})
        if begins is None:
            return self
        changed: dict[str, Any] = {"mutation": _RULES[begins]}
        if begins == "from_scratch":
            changed["components"] = self.components.model_copy(update={"head": (EVERY,)})
        return self.model_copy(update=changed)


@dataclass(frozen=True)
class SharedData:
    """The data values that all children of a generation get, and their mutations.

    Attributes:
        hparams: value of each ``ds_`` key.
        mu: mutation rates of these keys, as far as they have their own.
        decisions, moves: decisions and mutated values, in order; none where the agent has no path yet.
    """

    hparams: dict[str, Value]
    mu: dict[str, float]
    decisions: tuple[MutationDecision, ...] = ()
    moves: tuple[Move, ...] = ()


@dataclass(frozen=True)
class ChildPlan:
    """The plan of a child.

    Attributes:
        parent: id of the path whose values and components it begins with.
        own: whether that is a path of the same agent, so that its score is the child's bar.
        hparams: all its hyperparameters.
        mu: the learned rates.
        components: a plan for each place, in the order in which a sample passes them.
        decisions: all decisions, in order.
        moves: mutated values, in order.
    """

    parent: str
    own: bool
    hparams: dict[str, Value]
    mu: dict[str, float]
    components: tuple[ComponentPlan, ...]
    decisions: tuple[MutationDecision, ...]
    moves: tuple[Move, ...]

    @property
    def applied(self) -> tuple[str, ...]:
        """Names of the actions that were taken, in order."""
        return tuple(decision.action for decision in self.decisions if decision.applied)

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)


def shared_data(
    space: Hyperparameters, best: Path | None, rng: np.random.Generator, settings: MutationSettings
) -> SharedData:
    """Data values for a generation whose children share them.

    Args:
        space: the tuned hyperparameters.
        best: the agent's best path; None = it has none yet, and the defaults are used as they are.
        rng: generator of the generation.
        settings: settings of mutation. The global rate is the default one, not the best path's.

    Raises:
        UsageError: a value that is in no list.
    """
    keys = [key for key in sorted(space.by_key) if key.startswith(DATA)]
    if best is None:
        return SharedData({key: space.by_key[key].default for key in keys}, {})
    given = space.complete(best.hparams)
    actions = {entry(f"hp:{key}") for key in keys}
    own = {key: rate for key, rate in best.mu.items() if key in actions}
    mutator = Mutator(space.default_mu() | own, space.rates, rng, settings)
    values = {key: mutator.mutate(space.by_key[key], given[key]) if key in space.tuned else given[key] for key in keys}
    rates = {key: rate for key, rate in mutator.mu.items() if key != MU}
    return SharedData(values, rates, tuple(mutator.decisions), tuple(mutator.moves))


def mutate_values(
    space: Hyperparameters, hparams: Mapping[str, Value], mutator: Mutator, shared: SharedData | None = None
) -> dict[str, Value]:
    """A child's values: the global rate first, since it drives the rest, then each key in order.

    Args:
        space: the tuned hyperparameters.
        hparams: the parent's values; unknown keys are dropped, missing ones get their default.
        mutator: mutator of the child.
        shared: data values of the generation; they and their rates replace the child's, so these keys are not mutated.

    Raises:
        UsageError: a value that is in no list.
    """
    values = space.complete(hparams)
    for key in space.tuned:
        if key == MU:
            mutator.mutate_rate()
        elif shared is None or not key.startswith(DATA):
            values[key] = mutator.mutate(space.by_key[key], values[key])
    if shared is not None:
        values |= shared.hparams
        mutator.mu |= shared.mu
    return values


def plan_child(
    parent: Path,
    places: Sequence[Place],
    *,
    own: bool,
    needs: Needs,
    locked: Callable[[str], bool],
    space: Hyperparameters,
    settings: ChildSettings,
    rng: np.random.Generator,
    ancestors: Sequence[Sequence[Place]] = (),
    shared: SharedData | None = None,
    untrained: Callable[[str], bool] = lambda component: False,
    learned: Collection[str] = (),
) -> ChildPlan:
    """Plan a child.

    Args:
        parent: its values and rates are inherited by copy.
        places: the parent's places, filled.
        own: whether the parent is a path of the child's agent.
        needs: values of the child -> its places.
        locked: whether publications of other agents use a component.
        space: the tuned hyperparameters.
        settings: settings of children.
        rng: generator of this child.
        ancestors: places of the parent's ancestors, nearest first, as far as their weights are there.
        shared: data values of the generation; None = the child has its own.
        untrained: whether a component is as it was drawn; see ``plan_components``.
        learned: components that have learned the child's task for another agent; see ``plan_components``.

    Raises:
        UsageError: a value or rate of the parent that is in no list.
    """
    # Rates went through storage: each is written as its list writes it.
    rates = {key: float(space.rates.values[space.rates.index(rate)]) for key, rate in parent.mu.items()}
    mutator = Mutator(space.default_mu() | rates, space.rates, rng, settings.mutation)
    values = mutate_values(space, parent.hparams, mutator, shared)
    components = plan_components(
        needs(values),
        places,
        own=own,
        locked=locked,
        mutator=mutator,
        settings=settings.components,
        ancestors=ancestors,
        untrained=untrained,
        learned=learned,
    )
    return ChildPlan(
        parent.id,
        own,
        values,
        mutator.mu,
        components,
        tuple(mutator.decisions),
        tuple(mutator.moves),
    )

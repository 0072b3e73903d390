"""Ways to learn a set of tasks: the same agents, whose mutations are restricted.

µNet (2205.10937), section 4; docs/spec/munet.md#experiments: baselines have the same budget and the same search over
hyperparameters. What differs is what a child may share, copy or begin anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from evodevo.multitask.search.child import ChildSettings
from evodevo.multitask.search.components import ComponentSettings
from evodevo.multitask.search.mutation import MutationSettings
from evodevo.multitask.settings import CycleSettings
from evodevo.settings import merge, validate

ArmName = Literal["scratch", "fine_tuning", "frozen", "singlepath", "joint"]
ROOTS = "*~root_model~*"
"""Agents that are roots, as ``AgentSettings.builds_on`` names them."""


@dataclass(frozen=True)
class RecipeVariant:
    """One way.

    Attributes:
        letter: its letter in results.
        title: title in tables.
        words: the restriction in a sentence.
        builds_on: value of ``AgentSettings.builds_on``.
        child: settings of children; None = those of the class of agents, changed by those of the study.
        needs_root: whether the root's parameters are part of what the tasks need.
        joins: whether all tasks train a further root together first, in the place of half of the cycles.
    """

    letter: str
    title: str
    words: str
    builds_on: tuple[str, ...]
    child: ChildSettings | None
    needs_root: bool = True
    joins: bool = False


def _child(forced: tuple[str, ...], forbidden: tuple[str, ...], head: tuple[str, ...] = ("head",)) -> ChildSettings:
    return ChildSettings(
        mutation=MutationSettings(forced=forced, forbidden=forbidden), components=ComponentSettings(head=head)
    )


_SHAPE = ("hp:num_layers", "hp:ds_image_size")
FROZEN_SHAPE = (*_SHAPE, "hp:block_width")
"""Hyperparameters of all kinds of paths that would change a frozen component, or what it sees: a block of another width
is another one, and trained."""
FINE_TUNED = _child(("clone:*",), ("hp:num_layers",))
"""Children that copy and train all of their parent."""
ARMS: Mapping[str, RecipeVariant] = {
    "scratch": RecipeVariant(
        "a",
        "each task alone, from random",
        "nothing is taken of the root: every component begins at random; depth and resolution stay the root's",
        (ROOTS,),
        _child((), _SHAPE, ("*",)),
        needs_root=False,
    ),
    "fine_tuning": RecipeVariant(
        "b",
        "full fine-tuning of the root",
        "every component of the root is copied and trained; depth stays the root's",
        (ROOTS,),
        FINE_TUNED,
    ),
    "frozen": RecipeVariant(
        "c",
        "frozen root, new head",
        "the root is frozen but for its last norm, which is always copied, as the paper does; depth, width and"
        " resolution stay the root's",
        (ROOTS,),
        _child(("clone:encoder_norm",), ("clone:*", *FROZEN_SHAPE)),
    ),
    "singlepath": RecipeVariant(
        "d",
        "the singlepath agent",
        "all mutations, paths of all tasks, and first children as the class of agents has them",
        ("*",),
        None,
    ),
    "joint": RecipeVariant(
        "e",
        "the same agent, and a root that all tasks train together",
        "as (d), but in the place of half of the cycles all tasks train a copy of the root together, a step of one"
        " after a step of the other; an agent's first child is that root with the head that it has for the task,"
        " untrained, and the samples of that child are the root's; later parents are probed",
        ("*",),
        None,
        joins=True,
    ),
}
"""By name, in the order of the table."""


def restricted(cycle: CycleSettings, arm: RecipeVariant, usual: ChildSettings) -> CycleSettings:
    """Cycles of an arm; ``usual`` are the settings of children that the class of agents has."""
    child = arm.child
    if child is None:
        changed = merge(usual.model_dump(mode="json"), cycle.child.model_dump(mode="json", exclude_defaults=True))
        child = validate(ChildSettings, changed, what="settings of children")
    return cycle.model_copy(update={"child": child})

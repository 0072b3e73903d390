"""The components that a child shares with its parent, copies, or gets anew; training changes the last two alone.

Source: docs/spec/munet.md#components. Nothing that another agent published is ever trained: the child
references it, or trains a copy. Nothing that the child could train is ever referenced: it is copied first, so that the
weights of a parent stay what they are.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal

from pydantic import Field

from evodevo.multitask.search.mutation import Mutator, matches
from evodevo.settings import Settings

POSITIONS, BLOCKS, ADAPTERS, HEAD = "posembed_input", "encoderblock_*", "adapter_*", "head"
"""Roles with rules of their own, as ``multitask/paths/blocks_spec.py`` calls them."""
EVERY = "*"
"""Pattern of all roles."""
Fate = Literal["reference", "clone", "resize", "insert", "new"]


class ComponentSettings(Settings):
    """The source of components that the parent does not have."""

    head: tuple[str, ...] = Field(
        default=(HEAD,),
        description="roles, with * for any text, that are taken from own parents only: a parent of others gives no "
        "head; '*' takes nothing of others, so that a first child begins at random",
    )
    grids: Literal["ancestor", "parent"] = Field(
        default="ancestor",
        description="position embedding of another resolution: the nearest ancestor's that fits, else the eldest's "
        "resized (paper's code); or the parent's resized (V4b)",
    )
    blocks: Literal["insert", "new"] = Field(
        default="insert",
        description="an added layer: one that changes no answer at first; or a random one (V4b)",
    )


@dataclass(frozen=True)
class Place:
    """A place of a path.

    Attributes:
        role: its name ("encoderblock_0").
        signature: a component fits where its signature is equal; any text that covers all facts on which it depends.
        id: id of the component that fills it; None in a path that is yet to be made.
        resizable: text that is equal where one component can be made of the other, though their signatures differ;
            empty for most.
    """

    role: str
    signature: str
    id: str | None = None
    resizable: str = ""


@dataclass(frozen=True)
class ComponentPlan:
    """The filling of a child's place.

    Attributes:
        role: name of the place.
        fate: "reference" (frozen, shared with its maker) or a trained component: "clone" (a copy of the source),
            "resize" (the source at another size: a position embedding on another grid, a wider block), "insert" (a new
            layer that changes no answer at first), "new" (initialised as the path's kind does).
        source: id of the component that is referenced, copied or resized; None for a new one.
        reason: reason of the choice, in words.
    """

    role: str
    fate: Fate
    source: str | None
    reason: str

    @property
    def trained(self) -> bool:
        """Whether the child gets a component of its own here."""
        return self.fate != "reference"


def plan_components(
    needs: Sequence[Place],
    parent: Sequence[Place],
    *,
    own: bool,
    locked: Callable[[str], bool],
    mutator: Mutator,
    settings: ComponentSettings,
    ancestors: Sequence[Sequence[Place]] = (),
    fresh: frozenset[str] = frozenset(),
    untrained: Callable[[str], bool] = lambda component: False,
    learned: Collection[str] = (),
) -> tuple[ComponentPlan, ...]:
    """Fill each place of a child.

    Args:
        needs: its places, in the order in which a sample passes them.
        parent: the parent's places, filled.
        own: whether the parent is a path of the same agent.
        locked: whether other agents' publications use a component; such a one is never trained.
        mutator: decides ``clone:<role>`` where the parent's component may stay frozen.
        settings: source of components that the parent lacks.
        ancestors: places of the parent's ancestors, nearest first, as far as their weights are there.
        fresh: roles that begin anew whatever the parent has (a connector to another support).
        untrained: whether a component is as it was drawn, and not to be shared: its copy is trained instead.
        learned: components that have learned the child's task for another agent, and are taken like its own parent's.
    """
    having = {place.role: place for place in parent}
    plans = []
    for need in needs:
        has = having.get(need.role)
        if need.role in fresh:
            plans.append(ComponentPlan(need.role, "new", None, "what it belongs to is new"))
        elif has is None or has.id is None or has.signature != need.signature:
            plans.append(_missing(need, has, ancestors, settings))
        elif matches(need.role, settings.head) and not own and has.id not in learned:
            plans.append(ComponentPlan(need.role, "new", None, "the parent answers for another agent"))
        elif not locked(has.id):
            plans.append(ComponentPlan(need.role, "clone", has.id, "no other agent uses it, so it may be trained"))
        elif untrained(has.id):
            plans.append(ComponentPlan(need.role, "clone", has.id, "nobody has trained it, so a copy is trained"))
        elif mutator.applies(f"clone:{need.role}"):
            forced = mutator.decisions[-1].why == "forced"
            plans.append(ComponentPlan(need.role, "clone", has.id, "always copied" if forced else "copied by mutation"))
        else:
            plans.append(ComponentPlan(need.role, "reference", has.id, "shared, frozen"))
    return tuple(plans)


def _missing(
    need: Place,
    has: Place | None,
    ancestors: Sequence[Sequence[Place]],
    settings: ComponentSettings,
) -> ComponentPlan:
    if matches(need.role, settings.head):
        return ComponentPlan(need.role, "new", None, "the parent has none for these classes")
    if has is not None and has.id is not None and need.resizable and has.resizable == need.resizable:
        return ComponentPlan(need.role, "resize", has.id, "the parent's at another width")
    grid = need.role == POSITIONS
    block = fnmatchcase(need.role, BLOCKS)
    if (block and settings.blocks == "insert") or fnmatchcase(need.role, ADAPTERS):
        return ComponentPlan(need.role, "insert", None, "an added layer that changes no answer at first")
    searched = settings.grids == "ancestor" if grid else not block
    lineage = [place for path in ancestors for place in path if place.role == need.role and place.id is not None]
    if searched:
        fitting = next((place for place in lineage if place.signature == need.signature), None)
        if fitting is not None:
            return ComponentPlan(need.role, "clone", fitting.id, "the nearest ancestor's that fits")
    if grid:
        whose, source = "parent", has
        if settings.grids == "ancestor" and lineage:
            whose, source = "eldest ancestor", lineage[-1]
        if source is not None and source.id is not None:
            return ComponentPlan(need.role, "resize", source.id, f"the {whose}'s at another resolution")
    return ComponentPlan(need.role, "new", None, "the parent has none that fits")

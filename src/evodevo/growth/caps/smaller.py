"""The smaller networks that fit under a cap, from structures alone.

Legend: N modules.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations

from evodevo.errors import UsageError
from evodevo.growth.growable import Growable, TaskSizes
from evodevo.growth.resources import Resources, number_words
from evodevo.growth.spec import CapSettings

EXHAUSTIVE = 10
"""Largest N of which all 2^N - 1 smaller networks are looked at."""

SMALL = (1, 2)
"""Numbers of modules of the networks that are tried though they do not fill the cap."""

ALONE = 1
"""Place of the single modules among the kinds."""

Ids = tuple[str, ...]


def only(structure: Growable, ids: Sequence[str]) -> Growable:
    """The network with these live modules alone; disabled ones stay as they are."""
    kept = {*ids, *structure.disabled}
    return structure.with_modules(tuple(module for module in structure.modules if module.id in kept))


def fitting_alone(structure: Growable, task: TaskSizes, caps: CapSettings) -> Ids:
    """Ids of the modules each of which alone, with all that is around it, is under the caps."""
    names = [module.id for module in structure.live]
    return tuple(name for name in names if Resources.of(only(structure, [name]), task).excess(caps) is None)


def unreachable(structure: Growable, task: TaskSizes, caps: CapSettings) -> str | None:
    """Why this network cannot be brought under the falls that are still to come; None where it can, or none comes."""
    if not caps.schedule or fitting_alone(structure, task, caps.lowest):
        return None
    limits = ", ".join(f"{name} {number_words(value)}" for name, value in caps.lowest.limits.items())
    return f"no module alone would fit under the caps in the end ({limits})"


def needed(structure: Growable, task: TaskSizes, caps: CapSettings) -> dict[str, str]:
    """Reason by id for a module that must stay, as it is the only one that fits under the falls to come."""
    if not caps.schedule:
        return {}
    fitting = fitting_alone(structure, task, caps.lowest)
    if len(fitting) > 1:
        return {}
    return {name: f"{name} is the only module that fits alone under the caps in the end" for name in fitting}


def check_falls(structure: Growable, task: TaskSizes, caps: CapSettings) -> None:
    """Refuse a schedule that the network cannot follow.

    Raises:
        UsageError: Not even one module alone fits under the last step; it names the smallest network.
    """
    if unreachable(structure, task, caps) is None:
        return
    excesses = []
    for module in structure.live:
        used = Resources.of(only(structure, [module.id]), task)
        excesses.append((used.flops, f"{module.id} alone: {used.excess(caps.lowest)}"))
    raise UsageError(
        f"caps.schedule falls lower than the smallest network that is left, one module ({min(excesses)[1]}). Raise the "
        "last step, or begin with a zoo that has a smaller module."
    )


def networks_under(
    structure: Growable, task: TaskSizes, caps: CapSettings, worth: Mapping[str, float]
) -> tuple[Ids, ...]:
    """Smaller networks under the caps, to none of which another module could be added, the most promising first.

    Those from which a later fall could not be reached are left out. Up to ``EXHAUSTIVE`` modules these are all there
    are; of more, one for each module, filled up with the others in order of their worth.

    Args:
        structure: The network, which has at least two live modules.
        task: What its cost depends on.
        caps: The caps in force, with the falls that are still to come.
        worth: What each module is thought to be worth, in any unit; its sum is what promises.

    Returns:
        Ids in the order of the network.
    """
    names = [module.id for module in structure.live]
    lasting = set(fitting_alone(structure, task, caps.lowest)) if caps.schedule else set(names)

    def fits(ids: Sequence[str]) -> bool:
        return Resources.of(only(structure, ids), task).excess(caps) is None

    found: list[Ids] = []
    if len(names) <= EXHAUSTIVE:
        for size in range(len(names) - 1, 0, -1):
            for ids in combinations(names, size):
                within = any(set(ids) < set(larger) for larger in found)
                if not within and not lasting.isdisjoint(ids) and fits(ids):
                    found.append(ids)
    else:
        by_worth = sorted(names, key=lambda name: (-worth.get(name, 0.0), names.index(name)))
        for first in names:
            chosen = [first]
            if not fits(chosen):
                continue
            for other in by_worth:
                if other != first and fits([*chosen, other]):
                    chosen.append(other)
            ids = tuple(name for name in names if name in chosen)
            if ids not in found and len(ids) < len(names) and not lasting.isdisjoint(ids):
                found.append(ids)
    return _promising(found, worth)


def kinds_under(
    structure: Growable, task: TaskSizes, caps: CapSettings, worth: Mapping[str, float]
) -> tuple[tuple[Ids, ...], ...]:
    """Smaller networks under the caps: those that fill them, then single modules, then pairs that do not.

    A small network makes more steps in the same FLOPs, and may end better than one that fills the cap. Arguments and
    order within a kind are those of ``networks_under``; a kind may be empty.
    """
    names = [module.id for module in structure.live]
    filling = networks_under(structure, task, caps, worth)
    lasting = set(fitting_alone(structure, task, caps.lowest)) if caps.schedule else set(names)

    def small(size: int) -> tuple[Ids, ...]:
        under = (
            ids
            for ids in combinations(names, size)
            if ids not in filling
            and not lasting.isdisjoint(ids)
            and Resources.of(only(structure, ids), task).excess(caps) is None
        )
        return _promising(under, worth)

    return (filling, *(small(size) for size in SMALL if size < len(names)))


def _promising(networks: Iterable[Ids], worth: Mapping[str, float]) -> tuple[Ids, ...]:
    return tuple(sorted(networks, key=lambda ids: -sum(worth.get(name, 0.0) for name in ids)))


def seated(kinds: Sequence[Sequence[Ids]], most: int, *, alone: bool = False) -> tuple[tuple[Ids, ...], ...]:
    """At most so many networks, of each kind in turn as long as it has any, taken by ``covering``.

    Kinds are ranked apart: of a small network more is gone, so that its loss right after the removal is higher.

    Args:
        kinds: Of each kind the most promising first, as ``kinds_under`` gives them.
        most: Number of seats.
        alone: Whether all single modules have seats before any other network.
    """
    counts = [0] * len(kinds)
    if alone:
        counts[ALONE] = min(len(kinds[ALONE]), most)
    for turn in range(max(map(len, kinds), default=0)):
        for place, kind in enumerate(kinds):
            counts[place] += turn >= counts[place] and turn < len(kind) and sum(counts) < most
    return tuple(covering(kind, count) for kind, count in zip(kinds, counts, strict=True))


def covering(networks: Sequence[Ids], most: int) -> tuple[Ids, ...]:
    """At most so many of the networks, in their order: every module that is in any of them is in one that is taken.

    So that no module goes by the first measurement alone, as far as ``most`` permits.
    """
    taken: list[Ids] = []
    named: set[str] = set()
    for ids in networks:
        if not named.issuperset(ids):
            taken.append(ids)
            named.update(ids)
    taken = taken[:most]
    others = [ids for ids in networks if ids not in taken]
    kept = {*taken, *others[: most - len(taken)]}
    return tuple(ids for ids in networks if ids in kept)

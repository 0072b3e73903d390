"""Data of a timeline of modules: one lane per module, and the order of the lanes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from evodevo.report.svg import finite


@dataclass(frozen=True)
class Point:
    """The value of a module at one probe.

    Attributes:
        x: Time.
        value: Thickness of the lane there; below 0 counts as 0, None is left out.
        words: Description for the tooltip.
    """

    x: float
    value: float | None
    words: str = ""


@dataclass(frozen=True)
class Lane:
    """A module from birth to removal.

    Attributes:
        id, archetype: Id and archetype of the module.
        family: ``attention``, ``recurrence``, ``convolution``, ``memoryless``, or another word.
        start: Time of its birth; 0 for a module of the first zoo.
        end: Time of its removal; None where it is there at the end.
        birth: ``grow``, ``spawn``, ``hybridise``; empty for the first zoo.
        parents: Ids of other lanes.
        heir: Id of the module that replaced it; empty for none.
        points: Values in order of time.
        again: Times at which its warm-up began again.
        enlarged: Times and operations of edits in place.
        words: Further description for the tooltip.
    """

    id: str
    archetype: str
    family: str
    start: float = 0.0
    end: float | None = None
    birth: str = ""
    parents: Sequence[str] = ()
    heir: str = ""
    points: Sequence[Point] = ()
    again: Sequence[float] = ()
    enlarged: Sequence[tuple[float, str]] = ()
    words: str = ""


@dataclass(frozen=True)
class EventMark:
    """An event: its number, its position on the x axis, and a description."""

    number: int
    x: float
    words: str = ""


def course(lane: Lane, until: float) -> list[tuple[float, float]]:
    """(time, value) from birth to removal: a newborn starts at 0; otherwise the nearest value holds."""
    known = [(point.x, max(value, 0.0)) for point in lane.points if (value := finite(point.value)) is not None]
    if not known:
        return [(lane.start, 0.0), (until, 0.0)]
    first = 0.0 if lane.birth else known[0][1]
    inside = [(at, value) for at, value in known if lane.start <= at <= until]
    return [(lane.start, first), *inside, (until, known[-1][1])]


def family_order(parents: Mapping[str, Sequence[str]]) -> list[str]:
    """All ids in an order that keeps ties short: each after its first parent and that one's older descendants.

    Args:
        parents: Parents by id, in order of birth; unknown ones do not count, and an id without any keeps its place.
    """
    children: dict[str, list[str]] = {}
    roots: list[str] = []
    born: set[str] = set()
    for name, those in parents.items():
        # Only a module that was born before can be a parent: a record that is not in order makes no loop.
        first = next((lane for lane in those if lane in born), None)
        (roots if first is None else children.setdefault(first, [])).append(name)
        born.add(name)
    families: list[str] = []
    waiting = roots[::-1]
    while waiting:
        name = waiting.pop()
        families.append(name)
        waiting += reversed(children.get(name, []))
    return families

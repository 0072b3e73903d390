"""What a timeline of a zoo is drawn from: a lane per module; and in which order the lanes lie."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from evodevo.report.svg import finite


@dataclass(frozen=True)
class Point:
    """What a probe saw of a module.

    Attributes:
        x: when.
        value: how thick the lane is there; below 0 counts as 0.
        words: all that is known, for the tooltip.
    """

    x: float
    value: float | None
    words: str = ""


@dataclass(frozen=True)
class Lane:
    """A module from birth to end.

    Attributes:
        id, archetype: of it.
        family: ``attention``, ``recurrence``, ``convolution``, ``memoryless``, or another word.
        start: when it was born, or came with the zoo.
        end: when it went; None where it lives on.
        birth: ``grow``, ``spawn``, ``hybridise``; empty for the first zoo.
        parents: ids of other lanes.
        heir: id of who took its place.
        points: in order of time.
        again: when its warm-up began anew.
        words: more on it, for the tooltip.
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
    words: str = ""


@dataclass(frozen=True)
class EventMark:
    """An event: its number, when it came, and what it did."""

    number: int
    x: float
    words: str = ""


def course(lane: Lane, until: float) -> list[tuple[float, float]]:
    """(when, value) from birth to end: a newborn counts nothing at first; beside that the nearest value holds."""
    known = [(point.x, max(value, 0.0)) for point in lane.points if (value := finite(point.value)) is not None]
    if not known:
        return [(lane.start, 0.0), (until, 0.0)]
    first = 0.0 if lane.birth else known[0][1]
    inside = [(at, value) for at, value in known if lane.start <= at <= until]
    return [(lane.start, first), *inside, (until, known[-1][1])]


def family_order(parents: Mapping[str, Sequence[str]]) -> list[str]:
    """All ids in an order that keeps ties short: each behind its first parent and that one's older descendants.

    Args:
        parents: id -> parents, in order of birth; unknown ones do not count, and who has none keeps its place.
    """
    children: dict[str, list[str]] = {}
    roots: list[str] = []
    born: set[str] = set()
    for name, those in parents.items():
        # Only who was born before can be a parent: a record that is not in order makes no loop.
        first = next((one for one in those if one in born), None)
        (roots if first is None else children.setdefault(first, [])).append(name)
        born.add(name)
    found: list[str] = []
    waiting = roots[::-1]
    while waiting:
        name = waiting.pop()
        found.append(name)
        waiting += reversed(children.get(name, []))
    return found

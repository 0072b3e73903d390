"""Lines that coincide, drawn beside each other, so that none hides another.

A stretch that several lines have in common is drawn once for each, shifted at right angles to it; all else is drawn
at its exact place.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

Place = tuple[float, float]
NOTE = "Lines that coincide are drawn beside each other; tooltips have the exact values."
STROKE = 2.0
_NEAR = 1.0
"""Lines less than this many pixels apart, half a stroke, coincide."""
_GAP, _WIDEST = 2.4, 36.0
"""Pixels between the middles of neighbours, and between the outer ones of a group of very many."""
_MITRE, _SHIFT = 4.0, 12.0
"""At a corner a shift is longer, so that both its sides keep their distance: at most so many times, and only up to so
many pixels. Lines in a very sharp peak are nearer to each other at its tip."""


@dataclass(frozen=True)
class SideBySide:
    """Lines as they are drawn.

    Attributes:
        lines: path of each line, as places (x, y) in pixels.
        dots: drawn places (x, y) in pixels of the points of each line, as many as were given.
        stroke: width of the lines, in pixels: 2, less where very many coincide.
        moved: whether any place is not the exact one.
    """

    lines: tuple[tuple[Place, ...], ...]
    dots: tuple[tuple[Place, ...], ...]
    stroke: float
    moved: bool


@dataclass
class _Stop:
    """A place of a line: an end of one of its segments, or where another line has one."""

    line: int
    x: float
    y: float
    own: bool
    group: int = -1
    before: bool = False
    after: bool = False
    drawn: Place = field(default=(0.0, 0.0))

    @property
    def kept(self) -> bool:
        """Whether it is more than the touch of another line's point between its own."""
        return self.own or self.before or self.after


def side_by_side(lines: Sequence[Sequence[Place]], top: float, bottom: float) -> SideBySide:
    """Shift what coincides.

    Args:
        lines: points (x, y) of each line in order, in pixels; pieces of a broken line are lines of their own.
        top, bottom: edges of the chart; no shift passes them.
    """
    ways = _stops(lines)
    groups = _groups(ways)
    shared = [frozenset(stop.line for stop in group) for group in groups]
    for way in ways:
        for left, right in pairwise(way):
            both = shared[left.group] & shared[right.group]
            left.after = right.before = len(both) > 1 and left.line in both
    normals = _normals(ways, groups)
    stroke, moved = STROKE, False
    for number, group in enumerate(groups):
        members = [stop for stop in group if stop.kept]
        for stop in group:
            stop.drawn = (stop.x, stop.y)
        if len({stop.line for stop in members}) > 1:
            gap = _spread(members, normals[number], top, bottom)
            stroke, moved = min(stroke, gap), True
    own = tuple(tuple(stop.drawn for stop in way if stop.own) for way in ways)
    drawn = tuple(tuple(stop.drawn for stop in way if stop.own or stop.drawn != (stop.x, stop.y)) for way in ways)
    return SideBySide(drawn, own, stroke, moved)


def _stops(lines: Sequence[Sequence[Place]]) -> list[list[_Stop]]:
    """Each line's points, and its places where other lines have points."""
    every = sorted({x for line in lines for x, _ in line})
    ways = []
    for number, line in enumerate(lines):
        way = [_Stop(number, *line[0], True)] if line else []
        for (x, y), (to_x, to_y) in pairwise(line):
            for between in every[bisect_right(every, x) : bisect_left(every, to_x)]:
                way.append(_Stop(number, between, y + (to_y - y) * (between - x) / (to_x - x), False))
            way.append(_Stop(number, to_x, to_y, True))
        ways.append(way)
    return ways


def _groups(ways: list[list[_Stop]]) -> list[list[_Stop]]:
    """Stops at one place, in the order of their lines; stops where no line has a point are dropped from ``ways``."""
    columns: dict[float, list[_Stop]] = defaultdict(list)
    for way in ways:
        for stop in way:
            columns[stop.x].append(stop)
    groups: list[list[_Stop]] = []
    for column in columns.values():
        for near in _clusters(sorted(column, key=lambda stop: stop.y)):
            if any(stop.own for stop in near):
                for stop in near:
                    stop.group = len(groups)
                groups.append(sorted(near, key=lambda stop: stop.line))
    for way in ways:
        way[:] = [stop for stop in way if stop.group >= 0]
    return groups


def _clusters(column: list[_Stop]) -> Iterator[list[_Stop]]:
    """Neighbours along y that are near each other; a chain of them is one cluster."""
    cluster = column[:1]
    for stop in column[1:]:
        if stop.y - cluster[-1].y < _NEAR:
            cluster.append(stop)
        else:
            yield cluster
            cluster = [stop]
    yield cluster


def _normals(ways: list[list[_Stop]], groups: list[list[_Stop]]) -> list[list[Place]]:
    """Of each group the unit normals, downwards, of the stretches that lines share at it; each direction once, however
    many lines have it, so that a corner is shifted along its bisector."""
    normals: list[set[Place]] = [set() for _ in groups]
    for way in ways:
        for left, right in pairwise(way):
            x, y = right.x - left.x, right.y - left.y
            if left.after and (long := math.hypot(x, y)):
                side = -1.0 if x < 0 else 1.0
                normal = (round(-y / long * side, 4), round(x / long * side, 4))
                normals[left.group].add(normal)
                normals[right.group].add(normal)
    return [sorted(found) for found in normals]


def _spread(members: list[_Stop], normals: list[Place], top: float, bottom: float) -> float:
    """Place the members of a group beside each other; the distance of neighbours, in pixels."""
    ranks = {line: rank for rank, line in enumerate(sorted({stop.line for stop in members}))}
    gap = min(_GAP, _WIDEST / (len(ranks) - 1))
    outer = normals[:1] + normals[-1:]  # by x, and so by angle, since all point downwards
    x, y = sum(x for x, _ in outer), sum(y for _, y in outer)
    long = math.hypot(x, y)
    normal = (x / long, y / long) if long > 1e-9 else (0.0, 1.0)
    least = min((normal[0] * x + normal[1] * y for x, y in normals), default=1.0)
    longest = min(_MITRE, max(_SHIFT / (gap * (len(ranks) - 1) / 2), 1.0))
    step = gap * min(1 / max(least, 1e-9), longest)
    middle = sum(stop.y for stop in members) / len(members)
    half = step * normal[1] * (len(ranks) - 1) / 2
    middle = max(min(middle, bottom - half), top + half)
    for stop in members:
        shift = step * (ranks[stop.line] - (len(ranks) - 1) / 2)
        stop.drawn = (stop.x + shift * normal[0], middle + shift * normal[1])
    return gap

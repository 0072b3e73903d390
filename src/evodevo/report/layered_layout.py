"""The positions of the nodes of a directed graph that is read from left to right (after Sugiyama et al. 1981).

Columns by longest path, long edges cut by invisible nodes, order in a column by the mean place of neighbours, heights
relaxed towards the neighbours' heights. Everything is a function of the graph alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean

_SWEEPS = 8
Point = tuple[float, float]


@dataclass(frozen=True)
class BoxSize:
    """The size of a node's box, in pixels."""

    width: float
    height: float


@dataclass(frozen=True)
class Layout:
    """A drawing's geometry.

    Attributes:
        centres: node -> the middle of its box.
        routes: edge -> points between its ends, from left to right, two for each column that it passes level;
            none for an edge between neighbouring columns.
        width, height: size of the whole drawing; all parts lie inside.
    """

    centres: Mapping[str, Point]
    routes: Mapping[tuple[str, str], tuple[Point, ...]]
    width: float
    height: float


def layered(
    sizes: Mapping[str, BoxSize], edges: Sequence[tuple[str, str]], column_gap: float = 26, row_gap: float = 14
) -> Layout:
    """The layout of a graph without cycles.

    Args:
        sizes: node -> size, in an order that breaks ties.
        edges: (from, to); both are nodes; one that occurs twice is laid out once.
        column_gap, row_gap: least distance between boxes.
    """
    wanted = list(dict.fromkeys(edges))
    columns = _columns(list(sizes), wanted)
    chains = {edge: _chain(edge, columns) for edge in wanted}
    ranks, links = _ranked(list(sizes), columns, chains)
    _untangle(ranks, links)
    tall = {name: size.height for name, size in sizes.items()}
    ys = _heights(ranks, links, tall, row_gap)
    top = min(y - tall.get(name, 0) / 2 for name, y in ys.items())
    x, column = 0.0, dict[str, tuple[float, float]]()
    for rank in ranks:
        wide = max(sizes[name].width for name in rank if name in sizes)
        column |= dict.fromkeys(rank, (x, x + wide))
        x += wide + column_gap
    return Layout(
        centres={name: (sum(column[name]) / 2, ys[name] - top) for name in sizes},
        routes={
            edge: tuple((side, ys[node] - top) for node in chain[1:-1] for side in column[node])
            for edge, chain in chains.items()
        },
        width=x - column_gap,
        height=max(y + tall.get(name, 0) / 2 for name, y in ys.items()) - top,
    )


def _columns(nodes: Sequence[str], edges: Sequence[tuple[str, str]]) -> dict[str, int]:
    """Node -> the length of the longest path that ends there."""
    into: dict[str, list[str]] = {name: [] for name in nodes}
    for start, end in edges:
        into[end].append(start)
    columns: dict[str, int] = {}
    waiting = list(nodes)
    while waiting:
        ready = [name for name in waiting if all(start in columns for start in into[name])]
        assert ready, "the graph has a cycle"
        for name in ready:
            columns[name] = 1 + max((columns[start] for start in into[name]), default=-1)
        waiting = [name for name in waiting if name not in columns]
    return columns


def _chain(edge: tuple[str, str], columns: Mapping[str, int]) -> list[str]:
    """The edge's ends with one invisible node in every column between them."""
    start, end = edge
    between = [f"{start}\n{end}\n{column}" for column in range(columns[start] + 1, columns[end])]
    return [start, *between, end]


def _ranked(
    nodes: Sequence[str], columns: Mapping[str, int], chains: Mapping[tuple[str, str], list[str]]
) -> tuple[list[list[str]], dict[str, tuple[list[str], list[str]]]]:
    """Names column by column, and each one's neighbours to the left and to the right."""
    ranks: list[list[str]] = [[] for _ in range(max(columns.values()) + 1)]
    for name in nodes:
        ranks[columns[name]].append(name)
    links: dict[str, tuple[list[str], list[str]]] = {name: ([], []) for name in nodes}
    for (start, _), chain in chains.items():
        for step, name in enumerate(chain[1:-1], columns[start] + 1):
            ranks[step].append(name)
            links[name] = ([], [])
        for left, right in pairwise(chain):
            links[left][1].append(right)
            links[right][0].append(left)
    return ranks, links


def _untangle(ranks: list[list[str]], links: Mapping[str, tuple[list[str], list[str]]]) -> None:
    """Order each column by the mean place of the neighbours in the column before it, to and fro."""
    for sweep in range(_SWEEPS):
        side = sweep % 2
        order = ranks if side == 0 else ranks[::-1]
        place = {name: float(number) for rank in ranks for number, name in enumerate(rank)}
        for rank in order:
            middle = {
                name: fmean(place[neighbour] for neighbour in links[name][side]) for name in rank if links[name][side]
            }
            rank.sort(key=lambda name, middle=middle, place=place: middle.get(name, place[name]))  # type: ignore[misc]
            place |= {name: float(number) for number, name in enumerate(rank)}


def _heights(
    ranks: Sequence[Sequence[str]],
    links: Mapping[str, tuple[list[str], list[str]]],
    tall: Mapping[str, float],
    gap: float,
) -> dict[str, float]:
    """Middles of the boxes: near those of their neighbours, in the column's order, never on top of each other."""
    ys: dict[str, float] = {}
    for rank in ranks:
        ys |= _packed(rank, dict.fromkeys(rank, 0.0), tall, gap)
    for sweep in range(_SWEEPS):
        side = sweep % 2
        for rank in ranks if side == 0 else ranks[::-1]:
            wish = {name: fmean(ys[neighbour] for neighbour in links[name][side]) if links[name][side] else ys[name]
                    for name in rank}  # fmt: skip
            ys |= _packed(rank, wish, tall, gap)
    return ys


def _packed(rank: Sequence[str], wish: Mapping[str, float], tall: Mapping[str, float], gap: float) -> dict[str, float]:
    """As near the wishes as the order and the gaps allow; the column as a whole is centred on the wishes."""
    ys: dict[str, float] = {}
    below = -float("inf")
    for name in rank:
        half = tall.get(name, 0.0) / 2
        # Pushed downwards only; the shift below removes the bias.
        ys[name] = max(wish[name], below + half)
        below = ys[name] + half + gap
    shift = fmean(wish[name] - ys[name] for name in rank)
    return {name: y + shift for name, y in ys.items()}

"""Similarity of a routing to a feed-forward stack (paper 6.3, figure 5: the model "imitates" one)."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evodevo.h_model.trace.spec import RoutingTrace

EXACT_UP_TO = 12
"""Largest number of hidden layers for the exact search, which takes 2^H H^2 steps."""


@dataclass(frozen=True)
class Chain:
    """The stack that is most similar to a routing.

    Attributes:
        order: Indices of the hidden layers, first to last.
        likeness: Cosine between the mean connection matrix and that of the stack (1 from each layer to the next, 0
            elsewhere): 1 for a perfect chain, sqrt(H - 1) / H where all connections are alike, 0 where no layer
            is connected to another. With T < H the chain is not run through, and 1 is out of reach.
        exact: Whether the order is the best of all; otherwise from a greedy search.
    """

    order: tuple[int, ...]
    likeness: float
    exact: bool


def mean_connections(trace: RoutingTrace) -> NDArray[np.float64]:
    """Mean weight between hidden layers, over samples and the iterations that reach hidden layers. (H, H)."""
    hidden = len(trace.hidden)
    weights = trace.connections[:, : max(trace.iterations - 1, 0), :, :hidden]
    if not weights.size:
        return np.zeros((hidden, hidden))
    mean: NDArray[np.float64] = weights.mean(axis=(0, 1), dtype=np.float64)
    return mean


def nearest_chain(trace: RoutingTrace) -> Chain:
    """The order of the layers whose chain is most similar to the mean connections; needs two layers and T >= 2."""
    matrix = mean_connections(trace)
    hidden = len(matrix)
    exact = hidden <= EXACT_UP_TO
    order = best_path(matrix) if exact else greedy_path(matrix)
    along = sum(matrix[first, two] for first, two in itertools.pairwise(order))
    norm = float(np.linalg.norm(matrix)) * np.sqrt(max(hidden - 1, 1))
    return Chain(order, float(along / norm) if norm > 0 else 0.0, exact)


def best_path(matrix: NDArray[np.float64]) -> tuple[int, ...]:
    """The heaviest path through all nodes, by dynamic programming over sets (Held and Karp 1962)."""
    count = len(matrix)
    best = np.full((1 << count, count), -np.inf)
    before = np.full((1 << count, count), -1)
    for node in range(count):
        best[1 << node, node] = 0.0
    for members in range(1, 1 << count):
        inside = [node for node in range(count) if members >> node & 1]
        outside = [node for node in range(count) if not members >> node & 1]
        if not outside:
            continue
        reach = best[members, inside, None] + matrix[np.ix_(inside, outside)]
        chosen = reach.argmax(axis=0)
        for column, node in enumerate(outside):
            best[members | 1 << node, node] = reach[chosen[column], column]
            before[members | 1 << node, node] = inside[chosen[column]]
    members = (1 << count) - 1
    node = int(best[members].argmax())
    path = [node]
    while (earlier := int(before[members, node])) >= 0:
        members, node = members & ~(1 << node), earlier
        path.append(node)
    return tuple(reversed(path))


def greedy_path(matrix: NDArray[np.float64]) -> tuple[int, ...]:
    """A heavy path through all nodes: the heaviest edges first, as long as they leave a set of paths."""
    count = len(matrix)
    after: dict[int, int] = {}
    start = list(range(count))  # of the path that each node lies on
    reached: set[int] = set()
    for edge in np.argsort(-matrix, axis=None, kind="stable"):
        first, two = divmod(int(edge), count)
        if first in after or two in reached or start[first] == start[two]:
            continue
        after[first] = two
        reached.add(two)
        joined = start[two]
        start = [start[first] if place == joined else place for place in start]
    node = next(place for place in range(count) if place not in reached)
    path = [node]
    while node in after:
        node = after[node]
        path.append(node)
    return tuple(path)

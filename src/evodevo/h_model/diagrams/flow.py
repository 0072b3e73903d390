"""The data of a routing diagram: the mean of some samples of a trace, or the difference of two such means."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from evodevo.errors import UsageError
from evodevo.h_model.trace.spec import RoutingTrace

Doubles = NDArray[np.float64]


@dataclass(frozen=True)
class RoutingGraph:
    """Routing of one sample, of the mean of several, or the difference of two. Legend as in ``RoutingTrace``.

    Attributes:
        inputs, hidden, outputs, kinds: as in the trace.
        first: (I, N) weights of the input step; of a difference, in [-1, 1].
        connections: (T, H, N).
        inflow: (T + 1, N).
        norms: (T, H) mean message norm.
        called: (T, H) share of the samples for which the layer was run.
        halted: (T + 1,) share of the samples that halted after 0 to T iterations.
        samples: number of samples.
    """

    inputs: tuple[str, ...]
    hidden: tuple[str, ...]
    outputs: tuple[str, ...]
    kinds: tuple[str, ...]
    first: Doubles
    connections: Doubles
    inflow: Doubles
    norms: Doubles
    called: Doubles
    halted: Doubles
    samples: int

    @property
    def iterations(self) -> int:
        """T."""
        return len(self.connections)


def mean_flow(trace: RoutingTrace) -> RoutingGraph:
    """The mean over the samples of a trace; zeros where it has none."""

    def mean(values: NDArray[np.generic]) -> Doubles:
        average = values.astype(np.float64)
        return average.mean(axis=0) if trace.count else np.zeros(values.shape[1:])

    halted = np.bincount(np.clip(trace.steps, 0, trace.iterations), minlength=trace.iterations + 1)
    return RoutingGraph(
        trace.inputs,
        trace.hidden,
        trace.outputs,
        trace.kinds,
        mean(trace.first),
        mean(trace.connections),
        mean(trace.inflow),
        mean(trace.norms),
        mean(trace.called),
        halted / max(trace.count, 1),
        trace.count,
    )


def flow_difference(first: RoutingGraph, other: RoutingGraph) -> RoutingGraph:
    """``first`` minus ``other``; a layer counts as called where either calls it.

    Raises:
        UsageError: two different models.
    """
    if (first.first.shape, first.connections.shape) != (other.first.shape, other.connections.shape):
        raise UsageError(
            f"a difference needs two traces of one model; the connections have the shapes {first.connections.shape} "
            f"and {other.connections.shape}"
        )
    return replace(
        first,
        first=first.first - other.first,
        connections=first.connections - other.connections,
        inflow=first.inflow - other.inflow,
        norms=first.norms - other.norms,
        called=np.maximum(first.called, other.called),
        halted=(first.halted + other.halted) / 2,
        samples=first.samples + other.samples,
    )


class GraphNode(NamedTuple):
    """A node of the drawing, at ``row`` and ``column``.

    Columns: 0 is the input step, t = 1 to T the iterations, T + 1 the answer. Rows: inputs, hidden layers, outputs.
    """

    column: int
    row: int


class DrawnConnection(NamedTuple):
    """One connection: ``weight`` from a source to a target one column further."""

    source: GraphNode
    target: GraphNode
    weight: float


class DrawnConnections(NamedTuple):
    """Connections to draw, the strongest first; how many reach the threshold, and how many there are at all."""

    drawn: list[DrawnConnection]
    strong: int
    every: int


def strongest_routes(
    flow: RoutingGraph, layers: Sequence[int], iterations: int, threshold: float = 0.0, most: int | None = None
) -> DrawnConnections:
    """The connections among some hidden layers (and from inputs, to outputs) in the first iterations.

    Messages of the last of these to hidden layers are left out: no layer receives them, or it is not drawn. Weights of
    0 are no connections to draw.
    """
    inputs, hidden = len(flow.inputs), len(flow.hidden)
    outputs = range(hidden, hidden + len(flow.outputs))
    routes: list[DrawnConnection] = []
    strong = every = 0
    for step in range(iterations + 1):
        weights = flow.connections[step - 1] if step else flow.first
        sources = list(layers) if step else list(range(inputs))
        targets = [*layers, *outputs] if step < iterations else list(outputs)
        part = weights[np.ix_(sources, targets)]
        size = np.abs(part)
        places = np.flatnonzero((size >= threshold) & (size > 0))
        every, strong = every + part.size, strong + len(places)
        kept = places[np.argsort(-size.reshape(-1)[places], kind="stable")][:most]
        for row, column in zip(*np.unravel_index(kept, part.shape), strict=True):
            source = GraphNode(step, inputs + sources[row] if step else sources[row])
            routes.append(
                DrawnConnection(source, GraphNode(step + 1, inputs + targets[column]), float(part[row, column]))
            )
    routes.sort(key=lambda route: -abs(route.weight))
    return DrawnConnections(routes[:most], strong, every)

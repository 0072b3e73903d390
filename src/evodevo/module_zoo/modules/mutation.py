"""Mutation of the nodes of a free graph: each attribute of a node as the same attribute of a family would."""

from __future__ import annotations

import numpy as np

from evodevo.errors import GenomeError
from evodevo.module_zoo.modules.graph import check_graph, widths
from evodevo.module_zoo.modules.spec import ModuleGraph


def mutated_nodes(graph: ModuleGraph, width: int, rng: np.random.Generator, scale: float) -> ModuleGraph:
    """A valid graph whose nodes have mutated; a change that does not fit to the other nodes is not made.

    Source: docs/spec/architect_thyself.md#attributes.

    Args:
        graph: a valid one.
        width: d.
        rng: generator of all draws.
        scale: multiplies spreads and chances.
    """
    channels = widths(graph, width)
    for place, node in enumerate(graph.nodes):
        nodes = (*graph.nodes[:place], node.mutated(channels[node.id], rng, scale), *graph.nodes[place + 1 :])
        changed = graph.model_copy(update={"nodes": nodes})
        try:
            check_graph(changed, width)
        except GenomeError:
            continue
        graph = changed
    return graph

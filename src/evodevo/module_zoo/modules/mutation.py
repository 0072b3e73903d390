"""How the nodes of a free graph mutate: each attribute of a node as the same attribute of a family would."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from evodevo.errors import GenomeError
from evodevo.module_zoo.modules.attributes import CATEGORY_CHANCE, Category, Factor, Grid, Kind, Share
from evodevo.module_zoo.modules.graph import check_graph, widths
from evodevo.module_zoo.modules.operator_text import liv_names, operator_layer
from evodevo.module_zoo.modules.spec import LayerNode, ModuleGraph, Node
from evodevo.operators.layers.spec import Layer, LIVLayer

_SIZE = Factor(1.0, 65536.0, 64.0)
_DROPOUT = Share(high=0.5, default=0.1)
_ACTIVATION = Category(("relu", "gelu", "silu"), "gelu")

NODE_KINDS: Mapping[str, Mapping[str, Kind]] = {
    "attention": {"heads": Grid((1, 2, 4, 8, 16, 32, 64), 4), "dropout": _DROPOUT},
    "feed_forward": {"hidden": _SIZE, "activation": _ACTIVATION, "dropout": _DROPOUT},
    "convolution": {
        "width": _SIZE,
        "kernel": Grid((1, 3, 5, 7, 9), 3),
        "activation": Category(("relu", "gelu", "silu", "none"), "none"),
        "dropout": _DROPOUT,
    },
    "lstm": {
        "hidden": _SIZE,
        "layers": Grid((1, 2, 3, 4, 5, 6, 7, 8), 1),
        "both_ways": Category((False, True), True),
        "dropout": _DROPOUT,
    },
    "squeeze_excite": {"reduction": Grid((2, 4, 8, 16), 4), "activation": _ACTIVATION},
    "projection": {"width": _SIZE},
}
"""Type of a node -> its attributes that mutate. What has none stays as it is."""


def mutated_nodes(graph: ModuleGraph, width: int, rng: np.random.Generator, scale: float) -> ModuleGraph:
    """A valid graph whose nodes have mutated; a change that does not fit to the other nodes is not made.

    Source: docs/spec/architect_thyself.md#attributes.

    Args:
        graph: a valid one.
        width: d.
        rng: of all draws.
        scale: multiplies spreads and chances.
    """
    channels = widths(graph, width)
    for place, node in enumerate(graph.nodes):
        nodes = (*graph.nodes[:place], _mutated(node, channels[node.id], rng, scale), *graph.nodes[place + 1 :])
        changed = graph.model_copy(update={"nodes": nodes})
        try:
            check_graph(changed, width)
        except GenomeError:
            continue
        graph = changed
    return graph


def _mutated(node: Node, width: int, rng: np.random.Generator, scale: float) -> Node:
    if isinstance(node, LayerNode):
        return node.model_copy(update={"layer": _mutated_layer(node.layer, width, rng, scale)})
    changed: dict[str, Any] = {}
    for name, kind in NODE_KINDS.get(node.type, {}).items():
        value = kind.mutate(getattr(node, name), rng, scale, width)
        changed[name] = round(value) if kind is _SIZE and isinstance(value, float) else value
    return node.model_copy(update=changed)


def _mutated_layer(layer: Layer, width: int, rng: np.random.Generator, scale: float) -> Layer:
    """Another LIV class with chance 0.1; other layers stay."""
    if not isinstance(layer, LIVLayer) or rng.random() >= CATEGORY_CHANCE * scale:
        return layer
    names = liv_names(layer.width or width)
    if not names:
        return layer
    other = operator_layer(names[int(rng.integers(len(names)))], layer.width or width)
    return other.model_copy(update={"width": layer.width, "router": layer.router})

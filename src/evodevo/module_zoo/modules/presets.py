"""The graphs of the archetypes, from their attributes (equations 45 to 49; docs/spec/architect_thyself.md#families).

Legend: d width of the zoo, ``block.part`` the id of a node.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evodevo.module_zoo.modules.attributes import Attribute
from evodevo.module_zoo.modules.nodes.attention import AttentionNode
from evodevo.module_zoo.modules.nodes.base import NodeSpec
from evodevo.module_zoo.modules.nodes.convolution import ConvolutionNode
from evodevo.module_zoo.modules.nodes.feed_forward import FeedForwardNode
from evodevo.module_zoo.modules.nodes.joins import ConcatNode, SumNode
from evodevo.module_zoo.modules.nodes.layer import LayerNode
from evodevo.module_zoo.modules.nodes.lstm import LSTMNode
from evodevo.module_zoo.modules.nodes.norm import NormNode
from evodevo.module_zoo.modules.nodes.projection import ProjectionNode
from evodevo.module_zoo.modules.nodes.squeeze_excite import SqueezeExciteNode
from evodevo.module_zoo.modules.operator_text import operator_layer
from evodevo.module_zoo.modules.spec import INPUT, OUTPUT, ModuleGraph

Attributes = Mapping[str, Any]


class _Drawing:
    """A graph that is written down node by node."""

    def __init__(self) -> None:
        self.nodes: list[NodeSpec] = []
        self.edges: list[tuple[str, str]] = []

    def add(self, node: NodeSpec, *reads: str) -> str:
        """A node that reads these; gives its id."""
        self.nodes.append(node)
        self.edges += [(begin, node.id) for begin in reads]
        return node.id

    def answers(self, last: str) -> ModuleGraph:
        """The graph whose answer is the last node's."""
        return ModuleGraph(nodes=tuple(self.nodes), edges=(*self.edges, (last, OUTPUT)))


def channels(factor: Attribute, width: int) -> int:
    """A factor of the width as a number of channels."""
    return max(1, round(float(factor) * width))  # type: ignore[arg-type]


def transformer(width: int, given: Attributes) -> ModuleGraph:
    """Blocks of attention and feed-forward.

    ``parallel``: z + attention(norm z) + feed_forward(norm z), one norm. ``sequential``: each with its own norm and
    residual, one after the other. ``paper``: attention(z) + feed_forward(z), as eq. 46 is printed.
    """
    drawing, last = _Drawing(), INPUT
    for number in range(1, given["depth"] + 1):
        block = f"block{number}"
        attention = AttentionNode(id=f"{block}.attention", heads=given["heads"], dropout=given["dropout"])
        feed_forward = _feed_forward(f"{block}.feed_forward", given["feedforward_factor"], width, given)
        if given["form"] == "sequential":
            normed = drawing.add(NormNode(id=f"{block}.attention_norm"), last)
            last = drawing.add(SumNode(id=f"{block}.attention_sum"), last, drawing.add(attention, normed))
            normed = drawing.add(NormNode(id=f"{block}.feed_forward_norm"), last)
            last = drawing.add(SumNode(id=f"{block}.sum"), last, drawing.add(feed_forward, normed))
            continue
        paper = given["form"] == "paper"
        read = last if paper else drawing.add(NormNode(id=f"{block}.norm"), last)
        both = (drawing.add(attention, read), drawing.add(feed_forward, read))
        last = drawing.add(SumNode(id=f"{block}.sum"), *(() if paper else (last,)), *both)
    return drawing.answers(last)


def mlp(width: int, given: Attributes) -> ModuleGraph:
    """Eq. 45, ``depth`` times with norms between; nothing passes between positions."""
    drawing, last = _Drawing(), INPUT
    for number in range(1, given["depth"] + 1):
        if number > 1:
            last = drawing.add(NormNode(id=f"block{number}.norm"), last)
        last = drawing.add(_feed_forward(f"block{number}.feed_forward", given["hidden_factor"], width, given), last)
    return drawing.answers(last)


def _feed_forward(name: str, factor: Attribute, width: int, given: Attributes) -> FeedForwardNode:
    return FeedForwardNode(
        id=name,
        hidden=channels(factor, width),
        activation=given["activation"],
        dropout=given["dropout"],
        outer=given.get("outer", "none"),
    )


def resnet1d(width: int, given: Attributes) -> ModuleGraph:
    """Eq. 48: z + convolution(activation(convolution(norm z))), ``depth`` times."""
    drawing, last = _Drawing(), INPUT
    for number in range(1, given["depth"] + 1):
        block = f"block{number}"
        first = ConvolutionNode(
            id=f"{block}.first",
            width=channels(given["width_factor"], width),
            kernel=given["kernel"],
            activation=given["activation"],
            dropout=given["dropout"],
        )
        second = ConvolutionNode(id=f"{block}.second", width=width, kernel=given["kernel"])
        normed = drawing.add(NormNode(id=f"{block}.norm"), last)
        last = drawing.add(SumNode(id=f"{block}.sum"), last, drawing.add(second, drawing.add(first, normed)))
    return drawing.answers(last)


def lstm(width: int, given: Attributes) -> ModuleGraph:
    """Eq. 47 over real positions, and a linear map back to d."""
    drawing = _Drawing()
    node = LSTMNode(
        id="lstm",
        hidden=channels(given["hidden_factor"], width),
        layers=given["layers"],
        both_ways=given["both_ways"],
        dropout=given["dropout"],
    )
    return drawing.answers(drawing.add(node, INPUT))


def cnn(width: int, given: Attributes) -> ModuleGraph:
    """Convolutions with several kernels, side by side, a linear map, and the residual (Table 3, "multi-kernel")."""
    drawing = _Drawing()
    each = channels(given["channel_factor"], width)
    nodes = [
        drawing.add(
            ConvolutionNode(
                id=f"kernel{kernel}",
                width=each,
                kernel=kernel,
                activation=given["activation"],
                dropout=given["dropout"],
            ),
            INPUT,
        )
        for kernel in given["kernels"]
    ]
    together = drawing.add(ConcatNode(id="concat"), *nodes)
    back = drawing.add(ProjectionNode(id="projection", width=width), together)
    return drawing.answers(drawing.add(SumNode(id="sum"), INPUT, back))


def squeeze_excite(width: int, given: Attributes) -> ModuleGraph:
    """Eq. 49."""
    drawing = _Drawing()
    node = SqueezeExciteNode(id="squeeze_excite", reduction=given["reduction"], activation=given["activation"])
    return drawing.answers(drawing.add(node, INPUT))


def operator(width: int, given: Attributes) -> ModuleGraph:
    """Any operator of the library, as a whole block."""
    drawing = _Drawing()
    return drawing.answers(drawing.add(LayerNode(id="operator", layer=operator_layer(given["operator"], width)), INPUT))

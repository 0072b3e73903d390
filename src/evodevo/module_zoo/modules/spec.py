"""A module of a zoo as plain data: a graph of typed nodes (Architect Thyself 3.3, appendix E).

Source: docs/spec/architect_thyself.md#genotype.

Archetypes are preset graphs, hybrids are free ones; everything that builds, costs or draws a module reads the graph
alone. Sizes are numbers of channels, not factors, so that a graph says exactly which tensors there are.

Legend: d width of the zoo, L positions.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from evodevo import canonical
from evodevo.operators.layers.spec import Layer
from evodevo.settings import Settings

Activation = Literal["relu", "gelu", "silu"]
Attribute = float | int | str | bool | tuple[int, ...]
INPUT, OUTPUT = "in", "out"
"""The ends of every graph: what the module reads, (B, L, d), and what it answers, (B, L, d)."""
HYBRID = "hybrid"
"""Stands for the archetype of a free graph."""
MAX_NODES = 256


class _Node(Settings):
    """What every node has. Each maps (B, L, w) to (B, L, w'), and what stands at masked positions has no influence.

    Attributes:
        id: unique in its graph; not ``in`` or ``out``.
        lineage: nodes of two modules with one lineage come from one ancestor, so that their units correspond.
    """

    id: str = Field(pattern=r"^[a-z0-9_.\-]{1,40}$")
    lineage: str = Field(default="", max_length=80)


class AttentionNode(_Node):
    """Multi-head self-attention over all real positions; ``heads`` divide the width."""

    type: Literal["attention"] = "attention"
    heads: int = Field(default=4, ge=1, le=64)
    dropout: float = Field(default=0.0, ge=0, le=0.5)


class FeedForwardNode(_Node):
    """Token-wise W2 phi(W1 z + b1) + b2; ``outer`` puts a sigmoid around it, as eq. 45 prints it."""

    type: Literal["feed_forward"] = "feed_forward"
    hidden: int = Field(default=128, ge=1, le=1 << 18)
    activation: Activation = "gelu"
    dropout: float = Field(default=0.0, ge=0, le=0.5)
    outer: Literal["none", "sigmoid"] = "none"


class ConvolutionNode(_Node):
    """Centred convolution over positions to ``width`` channels, then the activation, then dropout."""

    type: Literal["convolution"] = "convolution"
    width: int = Field(default=64, ge=1, le=1 << 16)
    kernel: Literal[1, 3, 5, 7, 9] = 3
    activation: Activation | Literal["none"] = "none"
    dropout: float = Field(default=0.0, ge=0, le=0.5)


class LSTMNode(_Node):
    """LSTM over real positions, packed by the mask, with a linear map back to the width that came in."""

    type: Literal["lstm"] = "lstm"
    hidden: int = Field(default=32, ge=1, le=1 << 16)
    layers: int = Field(default=1, ge=1, le=8)
    both_ways: bool = True
    dropout: float = Field(default=0.0, ge=0, le=0.5)


class SqueezeExciteNode(_Node):
    """z sigmoid(W2 phi(W1 mean(z))): channels weighed by the mean over real positions (eq. 49)."""

    type: Literal["squeeze_excite"] = "squeeze_excite"
    reduction: Literal[2, 4, 8, 16] = 4
    activation: Activation = "relu"


class NormNode(_Node):
    """Layer norm over channels."""

    type: Literal["norm"] = "norm"


class ProjectionNode(_Node):
    """A linear map to ``width`` channels."""

    type: Literal["projection"] = "projection"
    width: int = Field(default=64, ge=1, le=1 << 16)


class GateNode(_Node):
    """Each channel times a learned number that starts at ``start``: 0 makes what was inserted silent."""

    type: Literal["gate"] = "gate"
    start: float = 0.0


class LayerNode(_Node):
    """Any operator of the library: a LIV by its operator genome, an H-Model, a span of a backbone (models/layers.py).

    It is a whole block, norm and residual inside, and keeps the width. Opaque to splicing.
    """

    type: Literal["layer"] = "layer"
    layer: Layer


class SumNode(_Node):
    """The sum of all that comes in; all of one width."""

    type: Literal["sum"] = "sum"


class ConcatNode(_Node):
    """Channels of all that comes in, side by side, in the order of the edges."""

    type: Literal["concat"] = "concat"


Node = Annotated[
    AttentionNode
    | FeedForwardNode
    | ConvolutionNode
    | LSTMNode
    | SqueezeExciteNode
    | NormNode
    | ProjectionNode
    | GateNode
    | LayerNode
    | SumNode
    | ConcatNode,
    Field(discriminator="type"),
]


class ModuleGraph(Settings):
    """Nodes and who hears whom. Whether it makes sense is for ``zoo_graphs.check_graph`` to say.

    Attributes:
        nodes: in any order.
        edges: (from, to); ``in`` has none that ends there, ``out`` exactly one. The order of the edges that end at a
            node is the order of what it reads. ``sum`` and ``concat`` read one or more, every other node exactly one.
    """

    nodes: tuple[Node, ...] = Field(default=(), max_length=MAX_NODES)
    edges: tuple[tuple[str, str], ...] = Field(default=((INPUT, OUTPUT),), max_length=4 * MAX_NODES)


class ModuleGenotype(Settings):
    """One architecture of a module.

    Attributes:
        archetype: a row of ``zoo_archetypes.ARCHETYPES``, or ``hybrid`` for a free graph.
        width: d of the zoo that it was made for.
        attributes: what the archetype's graph is made from; empty for a hybrid.
        graph: what is built.
    """

    archetype: str = Field(min_length=1, max_length=40)
    width: int = Field(ge=1, le=1 << 16)
    attributes: dict[str, Attribute] = Field(default_factory=dict)
    graph: ModuleGraph

    def __hash__(self) -> int:
        return hash(canonical.dumps(self.model_dump(mode="json")))


class ZooModule(Settings):
    """A module that lives in a zoo.

    Attributes:
        id: for ever; all statistics are kept by it, never by position.
        genotype: what it is.
        seed: of its initial weights.
        parents: ids; none for a module that was there from the start.
        birth_event: the event of growth that made it; 0 for the start.
    """

    id: str = Field(pattern=r"^[a-z0-9_\-]{1,40}$")
    genotype: ModuleGenotype
    seed: int = Field(default=0, ge=0, lt=1 << 64)
    parents: tuple[str, ...] = ()
    birth_event: int = Field(default=0, ge=0)

    @model_validator(mode="after")
    def _is_not_its_own_parent(self) -> Self:
        if self.id in self.parents:
            raise ValueError(f"the module {self.id!r} names itself as a parent")
        return self


import evodevo.h_model.spec  # noqa: E402, F401 - completes the layers: H-Models, and modules like these

"""The kinds of nodes of a module's graph: one row of ``NODES``, one class without torch in one file.

To add a kind, write such a class ::

    class MyNode(NodeSpec):
        type: Literal["mine"] = "mine"
        units: int = Field(default=8, ge=1, le=1024)

        def parameters(self, width): ...
        def work(self, width, length): ...
        def build(self, width): ...  # imports its module from the file beside it

and add ``"mine": "package.module:MyNode"`` to ``NODES``, or to the entry points ``evodevo.zoo_nodes`` of a package; the
page docs/adding-a-zoo-node.md shows it step by step. From then on a graph accepts it; costs, drawings, mutation,
repair, splicing and inheritance ask the node. ``testing.zoo_modules`` has the laws that a kind must keep.

Legend: B samples, L positions, w channels that a node reads, d width of the zoo.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, ClassVar, Self

import numpy as np
from pydantic import Field

from evodevo.errors import GenomeError, UsageError, quoted_list
from evodevo.module_zoo.modules.attributes import Category, Kind, Share, SizeFactor
from evodevo.module_zoo.modules.nodes.inheritance import Map, Match
from evodevo.operators.cost import Work
from evodevo.registry import Registry, table
from evodevo.settings import RowOf, Settings

if TYPE_CHECKING:
    from torch import Tensor

    from evodevo.operators.base import Operator
    from evodevo.operators.layers.base import LayerSpec
    from evodevo.operators.source.sheet import SourceSheet

NODES: Registry[type[NodeSpec]] = table("type of node", "evodevo.zoo_nodes")
"""Type -> its class."""

_ROWS = {
    "attention": "evodevo.module_zoo.modules.nodes.attention:AttentionNode",
    "feed_forward": "evodevo.module_zoo.modules.nodes.feed_forward:FeedForwardNode",
    "convolution": "evodevo.module_zoo.modules.nodes.convolution:ConvolutionNode",
    "lstm": "evodevo.module_zoo.modules.nodes.lstm:LSTMNode",
    "squeeze_excite": "evodevo.module_zoo.modules.nodes.squeeze_excite:SqueezeExciteNode",
    "norm": "evodevo.module_zoo.modules.nodes.norm:NormNode",
    "projection": "evodevo.module_zoo.modules.nodes.projection:ProjectionNode",
    "gate": "evodevo.module_zoo.modules.nodes.gate:GateNode",
    "layer": "evodevo.module_zoo.modules.nodes.layer:LayerNode",
    "sum": "evodevo.module_zoo.modules.nodes.joins:SumNode",
    "concat": "evodevo.module_zoo.modules.nodes.joins:ConcatNode",
}
for _name, _row in _ROWS.items():
    NODES.add(_name, _row)
BUILT_IN = tuple(_ROWS)
"""Types of the library, in the order in which vectors of modules count them."""

MAX_CHANNELS = 1 << 16
"""Largest number of channels of a value in a graph."""

SIZE = SizeFactor(1.0, 65536.0, 64.0)
DROPOUT = Share(high=0.5, default=0.1)
ACTIVATION = Category(("relu", "gelu", "silu"), "gelu")
"""Mutation of the sizes, dropouts and activations of nodes; one constant each, above."""


class NodeSpec(Settings):
    """One node; a subclass is one kind.

    A node maps (B, L, w) to (B, L, w'), and the values at masked positions have no influence. A kind that reads several
    values is a ``JoinNode``.

    Attributes:
        id: unique in its graph; not ``in`` or ``out``.
        lineage: nodes of two modules with one lineage come from one ancestor, so that their units correspond.
        type: name of the row; a subclass narrows it to a literal.
        mutations: attribute -> kind of its mutation, in the order of the draws; other attributes stay as they are.
        counts_as: the built-in row under which vectors of modules count a kind from a package; without one they count
            its parameters and its work alone. The vectors have a fixed layout, because trained networks read them.
        size: the attribute that is its number of units, which ``widen`` raises; empty for kinds without hidden units.
        fewer_is_wider: whether the node is wider where that attribute is smaller.
        reads_more: whether further channels that it reads leave its answer as it was, where their weights are 0.
        joins: whether it reads several values and has no module.
        side_by_side: for a join, whether channels of its inputs lie side by side; else they are joined one by one.
        ordered: for a join, whether the order of its inputs counts.
        zero_is_neutral: for a join, whether an input of zeros leaves the answer as it is without this input.
        keeps_channels: whether channel c of the answer belongs to channel c of the first input.
        opaque: whether a newborn takes over all its weights, from a node with the same settings, or none. A kind that
            is not opaque has parameters and overrides ``tensor_matches``.
        computes: whether a module of nodes of this kind alone is worth keeping; false for norms and gates.
    """

    id: str = Field(pattern=r"^[a-z0-9_.\-]{1,40}$")
    lineage: str = Field(default="", max_length=80)
    type: str

    mutations: ClassVar[Mapping[str, Kind]] = {}
    counts_as: ClassVar[str] = ""
    size: ClassVar[str] = ""
    fewer_is_wider: ClassVar[bool] = False
    reads_more: ClassVar[bool] = False
    joins: ClassVar[bool] = False
    side_by_side: ClassVar[bool] = False
    ordered: ClassVar[bool] = False
    zero_is_neutral: ClassVar[bool] = False
    keeps_channels: ClassVar[bool] = True
    opaque: ClassVar[bool] = True
    computes: ClassVar[bool] = True

    # Channels

    def answer_width(self, widths: Sequence[int]) -> int:
        """Channels of the answer.

        Args:
            widths: channels of the inputs, in the order of their edges; one unless the node joins.

        Raises:
            GenomeError: the node cannot be there.
        """
        return widths[0]

    def fitted(self, width: int) -> Self | None:
        """The node as it can be at w channels: itself, one near it, or None where there is none."""
        try:
            self.answer_width((width,))
        except GenomeError:
            return None
        return self

    # Cost

    @abstractmethod
    def parameters(self, width: int) -> int:
        """Exact number of parameters at w channels."""

    @abstractmethod
    def work(self, width: int, length: int) -> Work:
        """FLOPs of one call on one sample of L real positions, all that is computed."""

    @property
    def position_wise(self) -> bool:
        """Whether the answer at a position depends on this position alone: only such a node is causal."""
        return False

    # Module

    @abstractmethod
    def build(self, width: int) -> Operator:
        """The module at w channels, with parameters from the global random stream.

        Raises:
            UsageError: the node joins, and has no module.
        """

    def join(self, values: list[Tensor]) -> Tensor:
        """The answer (B, L, w') of a node that joins, from values (B, L, w) in the order of the edges.

        Raises:
            UsageError: the node reads one value.
        """
        raise UsageError(f"node {self.id!r} ({self.type}) reads one value; it joins nothing.")

    # Source

    def source(self, sheet: SourceSheet, width: int) -> str:
        """The expression that makes the module of ``build`` in a generated file; its classes are added to the sheet.

        Raises:
            UsageError: A kind without source, such as one of a package that has not written it.
        """
        raise UsageError(f"a node of kind {self.type!r} has no source; take --to pt2.")

    def join_source(self, values: Sequence[str]) -> str:
        """The expression of ``join``, from those of its values.

        Raises:
            UsageError: See ``source``.
        """
        raise UsageError(f"a node of kind {self.type!r} has no source; take --to pt2.")

    # Mutation

    def mutated(self, width: int, rng: np.random.Generator, scale: float) -> Self:
        """A node near this one.

        Args:
            width: channels of the answer.
            rng: generator of all draws.
            scale: multiplies spreads and chances; 0 changes nothing.
        """
        changes = {name: kind.mutate(getattr(self, name), rng, scale, width) for name, kind in self.mutations.items()}
        return self.model_copy(update=changes)

    def widened(self, width: int, factor: float) -> Self | None:
        """The node with about ``factor`` times as many units; None where it has none, or as many as it may have.

        Args:
            width: channels of the answer.
            factor: above 1.
        """
        if not self.size:
            return None
        kind = self.mutations[self.size]
        value = kind.stepped(getattr(self, self.size), width, factor, up=not self.fewer_is_wider)
        return None if value is None else self.model_copy(update={self.size: value})

    # Inheritance

    def tensor_matches(self, parent: Self, read: Map, widths: tuple[int, int]) -> dict[str, Match]:
        """Tensor of a newborn's node -> its ancestor in a parent's node of the same kind; not for opaque kinds.

        Args:
            parent: the parent's node.
            read: channels that the newborn's node reads -> those that the parent's reads.
            widths: w of the newborn's node and of the parent's.
        """
        return {}

    @property
    def silencing_tensors(self) -> tuple[str, ...]:
        """Tensors that make the node answer 0 where they are 0, so that it can begin beside others without a change;
        none where it has no such tensors."""
        return ()

    def same_settings(self, other: NodeSpec) -> bool:
        """Whether two nodes differ in id and lineage at most."""
        return self.model_copy(update={"id": other.id, "lineage": other.lineage}) == other

    # Text

    @property
    def label(self) -> str:
        """Name in a drawing."""
        return self.type.replace("_", " ")

    @property
    def detail(self) -> str:
        """Settings in a drawing: ``4 heads``."""
        return ""

    @property
    def family(self) -> str:
        """Colour in drawings: ``attention``, ``memoryless``, ``convolution``, ``recurrence`` or ``other``."""
        return "other"

    @property
    def held_layer(self) -> LayerSpec | None:
        """The layer of the library that the node is made of; None for most kinds."""
        return None


class JoinNode(NodeSpec):
    """A node that reads one or more values and has no module; its answer is computed by ``join``."""

    joins: ClassVar[bool] = True
    computes: ClassVar[bool] = False

    def answer_width(self, widths: Sequence[int]) -> int:
        """See ``NodeSpec``."""
        if self.side_by_side:
            if sum(widths) > MAX_CHANNELS:
                raise GenomeError(f"node {self.id!r} puts {sum(widths)} channels side by side; at most {MAX_CHANNELS}.")
            return sum(widths)
        if len(set(widths)) > 1:
            raise GenomeError(
                f"node {self.id!r} adds values of {quoted_list(widths)} channels; all must have one width. Put "
                "projections before it."
            )
        return widths[0]

    def fitted(self, width: int) -> Self | None:
        """The node itself; its inputs are brought to what it can join."""
        return self

    def parameters(self, width: int) -> int:
        """0."""
        return 0

    def work(self, width: int, length: int) -> Work:
        """Additions are left out, as everywhere."""
        return Work()

    @property
    def position_wise(self) -> bool:
        """True."""
        return True

    def build(self, width: int) -> Operator:
        """
        Raises:
            UsageError: always.
        """
        raise UsageError(f"node {self.id!r} ({self.type}) has no parameters; it is no part of its own.")

    @abstractmethod
    def join(self, values: list[Tensor]) -> Tensor:
        """See ``NodeSpec``."""


Node = Annotated[NodeSpec, RowOf(NODES, key="type")]
"""Any row, as a type of fields."""

"""A token-wise feed-forward network as a node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, Literal, Self

from pydantic import Field

from evodevo.module_zoo.modules.attributes import Kind
from evodevo.module_zoo.modules.nodes.base import ACTIVATION, DROPOUT, SIZE, NodeSpec
from evodevo.module_zoo.modules.nodes.inheritance import Map, Match, affine_matches, leading
from evodevo.operators.cost import Work
from evodevo.operators.spec import Activation

if TYPE_CHECKING:
    from evodevo.operators.base import Operator
    from evodevo.operators.source.sheet import SourceSheet


class FeedForwardNode(NodeSpec):
    """Token-wise W2 phi(W1 z + b1) + b2 with h hidden units; ``outer`` puts a sigmoid around it, as eq. 45 prints it.

    2 w h + h + w parameters, 4 L w h FLOPs.
    """

    type: Literal["feed_forward"] = "feed_forward"
    hidden: int = Field(default=128, ge=1, le=1 << 18)
    activation: Activation = "gelu"
    dropout: float = Field(default=0.0, ge=0, le=0.5)
    outer: Literal["none", "sigmoid"] = "none"

    mutations: ClassVar[Mapping[str, Kind]] = {"hidden": SIZE, "activation": ACTIVATION, "dropout": DROPOUT}
    size: ClassVar[str] = "hidden"
    opaque: ClassVar[bool] = False

    def parameters(self, width: int) -> int:
        """See ``NodeSpec``."""
        return 2 * width * self.hidden + self.hidden + width

    def work(self, width: int, length: int) -> Work:
        """See ``NodeSpec``."""
        return Work(4 * length * width * self.hidden)

    @property
    def position_wise(self) -> bool:
        """True."""
        return True

    def build(self, width: int) -> Operator:
        """See ``NodeSpec``."""
        from evodevo.module_zoo.modules.nodes.feed_forward_model import OuterSigmoid
        from evodevo.operators.feed_forward import FeedForward

        if self.outer == "sigmoid":
            return OuterSigmoid(width, self.hidden, self.activation, self.dropout)
        return FeedForward(width, self.hidden, dropout=self.dropout, activation=self.activation)

    def source(self, sheet: SourceSheet, width: int) -> str:
        """See ``NodeSpec``."""
        from evodevo.module_zoo.source.nodes import OUTER_SIGMOID
        from evodevo.operators.source.layers import FEED_FORWARD

        name = sheet.add(OUTER_SIGMOID if self.outer == "sigmoid" else FEED_FORWARD)
        return f"{name}({width}, {self.hidden}, F.{self.activation})"

    def tensor_matches(self, parent: Self, read: Map, widths: tuple[int, int]) -> dict[str, Match]:
        """See ``NodeSpec``."""
        hidden = leading(self.hidden, parent.hidden)
        here, there = ("inside." if node.outer == "sigmoid" else "" for node in (self, parent))
        return affine_matches(f"{here}inner", hidden, read, source=f"{there}inner") | affine_matches(
            f"{here}outer", read, hidden, source=f"{there}outer"
        )

    @property
    def silencing_tensors(self) -> tuple[str, ...]:
        """None behind a sigmoid, which answers 1/2 where the maps answer 0."""
        return ("outer.weight", "outer.bias") if self.outer == "none" else ()

    @property
    def detail(self) -> str:
        """See ``NodeSpec``."""
        return f"{self.hidden} hidden, {self.activation}"

    @property
    def family(self) -> str:
        """See ``NodeSpec``."""
        return "memoryless"

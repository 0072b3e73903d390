"""A convolution over positions as a node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Literal, Self

from pydantic import Field

from evodevo.module_zoo.modules.attributes import Category, Grid, Kind
from evodevo.module_zoo.modules.nodes.base import DROPOUT, SIZE, NodeSpec
from evodevo.module_zoo.modules.nodes.inheritance import Map, Match, centred, leading
from evodevo.operators.cost import Work
from evodevo.operators.spec import Activation

if TYPE_CHECKING:
    from evodevo.operators.base import Operator
    from evodevo.operators.source.sheet import SourceSheet


class ConvolutionNode(NodeSpec):
    """Centred convolution over positions to w' = ``width`` channels, then the activation, then dropout.

    With k taps k w w' + w' parameters, 2 L k w w' FLOPs.
    """

    type: Literal["convolution"] = "convolution"
    width: int = Field(default=64, ge=1, le=1 << 16)
    kernel: Literal[1, 3, 5, 7, 9] = 3
    activation: Activation | Literal["none"] = "none"
    dropout: float = Field(default=0.0, ge=0, le=0.5)

    mutations: ClassVar[Mapping[str, Kind]] = {
        "width": SIZE,
        "kernel": Grid((1, 3, 5, 7, 9), 3),
        "activation": Category(("relu", "gelu", "silu", "none"), "none"),
        "dropout": DROPOUT,
    }
    size: ClassVar[str] = "width"
    reads_more: ClassVar[bool] = True
    keeps_channels: ClassVar[bool] = False
    opaque: ClassVar[bool] = False

    def answer_width(self, widths: Sequence[int]) -> int:
        """See ``NodeSpec``."""
        return self.width

    def parameters(self, width: int) -> int:
        """See ``NodeSpec``."""
        return self.kernel * width * self.width + self.width

    def work(self, width: int, length: int) -> Work:
        """See ``NodeSpec``."""
        return Work(2 * length * self.kernel * width * self.width)

    @property
    def position_wise(self) -> bool:
        """Whether there is one tap."""
        return self.kernel == 1

    def build(self, width: int) -> Operator:
        """See ``NodeSpec``."""
        from evodevo.module_zoo.modules.nodes.convolution_model import Convolution

        activation = None if self.activation == "none" else self.activation
        return Convolution(width, self.width, self.kernel, activation, self.dropout)

    def source(self, sheet: SourceSheet, width: int) -> str:
        """See ``NodeSpec``."""
        from evodevo.module_zoo.source.nodes import CONVOLUTION

        activation = "" if self.activation == "none" else f", F.{self.activation}"
        return f"{sheet.add(CONVOLUTION)}({width}, {self.width}, {self.kernel}{activation})"

    def tensor_matches(self, parent: Self, read: Map, widths: tuple[int, int]) -> dict[str, Match]:
        """See ``NodeSpec``."""
        out, taps = leading(self.width, parent.width), centred(self.kernel, parent.kernel)
        weight = Match("convolution.weight", (out, read, taps), (False, True, True))
        return {"convolution.weight": weight, "convolution.bias": Match("convolution.bias", (out,), (False,))}

    @property
    def silencing_tensors(self) -> tuple[str, ...]:
        """See ``NodeSpec``."""
        return ("convolution.weight", "convolution.bias")

    @property
    def detail(self) -> str:
        """See ``NodeSpec``."""
        return f"{self.width} wide, {self.kernel} taps"

    @property
    def family(self) -> str:
        """See ``NodeSpec``."""
        return "convolution"

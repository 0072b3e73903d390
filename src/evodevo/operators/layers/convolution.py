"""The layer of kind ``convolution``.

Legend: S positions, d width, K taps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal, Self

from pydantic import Field

from evodevo.errors import UsageError
from evodevo.operators.cost import STATE_BYTES, Work
from evodevo.operators.layers.base import LayerSizes, LayerSpec

if TYPE_CHECKING:
    from evodevo.operators.base import Operator
    from evodevo.operators.source.sheet import SourceSheet


class ConvolutionLayer(LayerSpec):
    """A pre-norm residual convolution over the sequence; centred, or into the past only where the model is causal.

    y = x + W gelu(taps * norm(x))

    Attributes:
        kernel: taps K; odd.
    """

    kind: Literal["convolution"] = "convolution"
    kernel: int = Field(default=3, ge=1, le=255)

    kind_family: ClassVar[str] = "convolution"

    def check(self, width: int) -> None:
        """Raise ``UsageError`` for an even number of taps."""
        if self.kernel % 2 == 0:
            raise UsageError(f"a convolution of {self.kernel} taps has no centre; take {self.kernel - 1}.")

    def own_parameters(self, width: int, causal: bool) -> int:
        """A norm d, taps K d, a map d²."""
        return width + self.kernel * width + width**2

    def own_work(self, width: int, length: int, *, causal: bool, visible: bool) -> Work:
        """S d² multiply-adds in the map, S K d by taps."""
        return Work(2 * length * width * width, 2 * length * self.kernel * width)

    def own_state_bytes(self, width: int, length: int) -> int:
        """The last K - 1 tokens."""
        return STATE_BYTES * (self.kernel - 1) * width

    def build(self, width: int, *, causal: bool, residual: bool) -> Operator:
        """See ``LayerSpec``."""
        from evodevo.operators.block import Block
        from evodevo.operators.local_convolution import LocalConvolution

        return Block(LocalConvolution(width, self.kernel, causal=causal), width, residual=residual)

    def source(self, sheet: SourceSheet, width: int, *, causal: bool, residual: bool) -> str:
        """See ``LayerSpec``."""
        from evodevo.operators.source.layers import CONVOLUTION
        from evodevo.operators.source.rows import block

        ahead = 0 if causal else self.kernel // 2
        made = f"{sheet.add(CONVOLUTION)}({width}, {self.kernel}, ahead={ahead})"
        return block(sheet, made, width, residual=residual)

    def sizes(self, width: int) -> str:
        """See ``LayerSpec``."""
        return f"{self.kernel} taps"

    @classmethod
    def sized(cls, sizes: LayerSizes) -> Self:
        """See ``LayerSpec``."""
        return cls(kernel=sizes.kernel)

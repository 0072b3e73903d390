"""The layer of kind ``mlp``.

Legend: S positions, d width, F hidden units.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal, Self

from pydantic import Field

from evodevo.operators.cost import Work
from evodevo.operators.layers.base import LayerSizes, LayerSpec

if TYPE_CHECKING:
    from evodevo.operators.base import Operator
    from evodevo.operators.source.sheet import SourceSheet


class MLPLayer(LayerSpec):
    """A token-wise pre-norm feed-forward block: nothing passes between tokens.

    y = x + W_2 gelu(W_1 norm(x))

    Attributes:
        hidden: units F; twice the width if left out.
        dropout: probability of dropout on the output while training, 0 to 1.
    """

    kind: Literal["mlp"] = "mlp"
    hidden: int | None = Field(default=None, ge=1, le=1 << 20)
    dropout: float = Field(default=0.0, ge=0, lt=1)

    kind_family: ClassVar[str] = "memoryless"

    def own_parameters(self, width: int, causal: bool) -> int:
        """See ``feedforward_parameters``."""
        return feedforward_parameters(width, self.hidden or 2 * width)

    def own_work(self, width: int, length: int, *, causal: bool, visible: bool) -> Work:
        """See ``feedforward_work``."""
        return feedforward_work(width, self.hidden or 2 * width, length)

    def own_context_work(self, width: int, length: int, *, causal: bool, visible: bool) -> Work:
        """None."""
        return Work()

    def build(self, width: int, *, causal: bool, residual: bool) -> Operator:
        """See ``LayerSpec``."""
        from evodevo.operators.block import Block
        from evodevo.operators.feed_forward import FeedForward

        return Block(FeedForward(width, self.hidden or 2 * width, dropout=self.dropout), width, residual=residual)

    def source(self, sheet: SourceSheet, width: int, *, causal: bool, residual: bool) -> str:
        """See ``LayerSpec``."""
        from evodevo.operators.source.layers import FEED_FORWARD
        from evodevo.operators.source.rows import block

        return block(sheet, f"{sheet.add(FEED_FORWARD)}({width}, {self.hidden or 2 * width})", width, residual=residual)

    def sizes(self, width: int) -> str:
        """See ``LayerSpec``."""
        return f"{self.hidden or 2 * width} hidden"

    @classmethod
    def sized(cls, sizes: LayerSizes) -> Self:
        """See ``LayerSpec``."""
        return cls(hidden=sizes.feedforward)


def feedforward_parameters(width: int, hidden: int) -> int:
    """A norm d, two maps d F, and their biases F + d."""
    return width + 2 * width * hidden + width + hidden


def feedforward_work(width: int, hidden: int, length: int) -> Work:
    """Two products of S d F multiply-adds."""
    return Work(4 * length * width * hidden)

"""The layer of kind ``transformer``, the default of H-Models and stacks.

Legend: S positions, d width, F hidden units.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal, Self

from pydantic import Field

from evodevo.errors import UsageError
from evodevo.operators.cost import STATE_BYTES, Work
from evodevo.operators.layers.base import LayerSizes, LayerSpec
from evodevo.operators.layers.mlp import feedforward_parameters, feedforward_work

if TYPE_CHECKING:
    from evodevo.operators.base import Operator
    from evodevo.operators.source.sheet import SourceSheet


class TransformerLayer(LayerSpec):
    """A pre-norm transformer block: attention and feed-forward, each with its norm and residual (H-Model 6.2).

    Attributes:
        heads: attention heads; the number must divide the width.
        feedforward: hidden units F; twice the width if left out (H-Model 6.4: 128 and 256).
        dropout: probability of dropout after attention and feed-forward while training, 0 to 1.
    """

    kind: Literal["transformer"] = "transformer"
    heads: int = Field(default=4, ge=1, le=1024)
    feedforward: int | None = Field(default=None, ge=1, le=1 << 20)
    dropout: float = Field(default=0.0, ge=0, lt=1)

    kind_family: ClassVar[str] = "attention"

    def check(self, width: int) -> None:
        """Raise ``UsageError`` where the heads do not divide the width."""
        if width % self.heads:
            raise UsageError(f"{self.heads} attention heads do not divide the width {width}; take one of its divisors.")

    def own_parameters(self, width: int, causal: bool) -> int:
        """Four projections with biases and a norm, 4 d² + 5 d, and the feed-forward network."""
        return attention_parameters(width) + feedforward_parameters(width, self.feedforward or 2 * width)

    def own_work(self, width: int, length: int, *, causal: bool, visible: bool) -> Work:
        """Four products of S d² multiply-adds, the scores, and the feed-forward network."""
        attention = attention_work(width, length, half=causal and visible)
        return attention + feedforward_work(width, self.feedforward or 2 * width, length)

    def own_context_work(self, width: int, length: int, *, causal: bool, visible: bool) -> Work:
        """Keys and values: two products of S d² multiply-adds."""
        return Work(4 * length * width**2)

    def own_state_bytes(self, width: int, length: int) -> int:
        """Keys and values of all tokens."""
        return attention_state_bytes(width, length)

    def build(self, width: int, *, causal: bool, residual: bool) -> Operator:
        """See ``LayerSpec``."""
        from evodevo.operators.transformer import TransformerBlock

        hidden = self.feedforward or 2 * width
        return TransformerBlock(width, self.heads, hidden, causal=causal, dropout=self.dropout, residual=residual)

    def source(self, sheet: SourceSheet, width: int, *, causal: bool, residual: bool) -> str:
        """See ``LayerSpec``."""
        from evodevo.operators.source.rows import transformer_of

        hidden = self.feedforward or 2 * width
        return f"{transformer_of(sheet, causal=causal, residual=residual)}({width}, {self.heads}, {hidden})"

    def sizes(self, width: int) -> str:
        """See ``LayerSpec``."""
        return f"{self.heads} heads, {self.feedforward or 2 * width} hidden"

    @classmethod
    def sized(cls, sizes: LayerSizes) -> Self:
        """See ``LayerSpec``."""
        return cls(heads=sizes.heads, feedforward=sizes.feedforward)


def attention_parameters(width: int) -> int:
    """Four projections with biases and a norm, 4 d² + 5 d."""
    return 4 * width**2 + 5 * width


def attention_work(width: int, length: int, *, half: bool) -> Work:
    """Four products of S d² multiply-adds, and the scores; ``half`` as in ``score_products``."""
    return Work(8 * length * width**2 + score_products(width, length, half=half))


def attention_state_bytes(width: int, length: int) -> int:
    """Keys and values of S tokens."""
    return STATE_BYTES * 2 * length * width


def score_products(width: int, length: int, *, half: bool) -> int:
    """FLOPs of the scores and mixed values of all heads: 4 d for each pair of positions, or for each visible one."""
    pairs = length * (length + 1) // 2 if half else length * length
    return 4 * pairs * width

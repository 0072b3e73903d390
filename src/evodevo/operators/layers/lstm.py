"""The layer of kind ``lstm``.

Legend: S positions, d width.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal, Self

from evodevo.operators.cost import STATE_BYTES, Work
from evodevo.operators.layers.base import LayerSizes, LayerSpec

if TYPE_CHECKING:
    from evodevo.operators.base import Operator
    from evodevo.operators.source.sheet import SourceSheet


class LSTMLayer(LayerSpec):
    """A pre-norm residual LSTM; both ways unless the model is causal."""

    kind: Literal["lstm"] = "lstm"

    kind_family: ClassVar[str] = "recurrence"

    def own_parameters(self, width: int, causal: bool) -> int:
        """A norm d, and for each way four gates that read d channels and d hidden states, with two biases each."""
        return width + (1 if causal else 2) * 8 * width * (width + 1)

    def own_work(self, width: int, length: int, *, causal: bool, visible: bool) -> Work:
        """8 S d² multiply-adds for each way."""
        return Work((1 if causal else 2) * 16 * length * width**2)

    def own_state_bytes(self, width: int, length: int) -> int:
        """Hidden state and cell."""
        return STATE_BYTES * 2 * width

    def build(self, width: int, *, causal: bool, residual: bool) -> Operator:
        """See ``LayerSpec``."""
        from evodevo.operators.block import Block
        from evodevo.operators.lstm import LSTM

        return Block(LSTM(width, causal=causal), width, residual=residual)

    def source(self, sheet: SourceSheet, width: int, *, causal: bool, residual: bool) -> str:
        """See ``LayerSpec``."""
        from evodevo.operators.source.layers import lstm
        from evodevo.operators.source.rows import block

        return block(sheet, f"{sheet.add(lstm(causal=causal))}({width})", width, residual=residual)

    @classmethod
    def sized(cls, sizes: LayerSizes) -> Self:
        """See ``LayerSpec``."""
        return cls()

"""An LSTM (Hochreiter and Schmidhuber 1997) as a node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, Literal, Self

from pydantic import Field

from evodevo.module_zoo.modules.attributes import Category, Grid, Kind
from evodevo.module_zoo.modules.nodes.base import DROPOUT, SIZE, NodeSpec
from evodevo.module_zoo.modules.nodes.inheritance import Map, Match, affine_matches, leading, repeated
from evodevo.operators.cost import Work

if TYPE_CHECKING:
    from evodevo.operators.base import Operator
    from evodevo.operators.source.sheet import SourceSheet


class LSTMNode(NodeSpec):
    """LSTM over real positions, packed by the mask, with a linear map back to the width that came in.

    Each layer and way has four gates: 4 h (w_in + h) weights and two biases of 4 h, with w_in = w in the first layer,
    and in later ones the states of all ways of the layer before. FLOPs are twice the weights for each position.
    """

    type: Literal["lstm"] = "lstm"
    hidden: int = Field(default=32, ge=1, le=1 << 16)
    layers: int = Field(default=1, ge=1, le=8)
    both_ways: bool = True
    dropout: float = Field(default=0.0, ge=0, le=0.5)

    mutations: ClassVar[Mapping[str, Kind]] = {
        "hidden": SIZE,
        "layers": Grid((1, 2, 3, 4, 5, 6, 7, 8), 1),
        "both_ways": Category((False, True), True),
        "dropout": DROPOUT,
    }
    size: ClassVar[str] = "hidden"
    opaque: ClassVar[bool] = False

    @property
    def ways(self) -> int:
        """Directions in which it reads."""
        return 2 if self.both_ways else 1

    def parameters(self, width: int) -> int:
        """See ``NodeSpec``."""
        biases = 8 * self.ways * self.hidden * self.layers
        return self._gate_weights(width) + biases + self.ways * self.hidden * width + width

    def work(self, width: int, length: int) -> Work:
        """See ``NodeSpec``."""
        return Work(2 * length * (self._gate_weights(width) + self.ways * self.hidden * width))

    def _gate_weights(self, width: int) -> int:
        """Numbers in all matrices of the gates; a later layer reads every direction of the one before."""
        total = 0
        for _ in range(self.layers):
            total += 4 * self.ways * self.hidden * (width + self.hidden)
            width = self.ways * self.hidden
        return total

    def build(self, width: int) -> Operator:
        """See ``NodeSpec``."""
        from evodevo.module_zoo.modules.nodes.lstm_model import Recurrent

        return Recurrent(width, self.hidden, self.layers, both_ways=self.both_ways, dropout=self.dropout)

    def source(self, sheet: SourceSheet, width: int) -> str:
        """See ``NodeSpec``."""
        from evodevo.module_zoo.source.nodes import RECURRENT

        return f"{sheet.add(RECURRENT)}({width}, {self.hidden}, {self.layers}, {self.both_ways})"

    def tensor_matches(self, parent: Self, read: Map, widths: tuple[int, int]) -> dict[str, Match]:
        """See ``NodeSpec``."""
        hidden = leading(self.hidden, parent.hidden)
        gates = repeated(hidden, 4, parent.hidden, 4)
        states = repeated(hidden, self.ways, parent.hidden, parent.ways)
        matches = affine_matches("out", read, states)
        for layer in range(min(self.layers, parent.layers)):
            for way in ("", "_reverse")[: min(self.ways, parent.ways)]:
                end = f"l{layer}{way}"
                entered = read if layer == 0 else states
                matches[f"lstm.weight_ih_{end}"] = Match(f"lstm.weight_ih_{end}", (gates, entered), (False, True))
                matches[f"lstm.weight_hh_{end}"] = Match(f"lstm.weight_hh_{end}", (gates, hidden), (False, True))
                for bias in ("bias_ih", "bias_hh"):
                    matches[f"lstm.{bias}_{end}"] = Match(f"lstm.{bias}_{end}", (gates,), (False,))
        return matches

    @property
    def silencing_tensors(self) -> tuple[str, ...]:
        """See ``NodeSpec``."""
        return ("out.weight", "out.bias")

    @property
    def detail(self) -> str:
        """See ``NodeSpec``."""
        ways = "both ways" if self.both_ways else "forwards"
        return f"{self.hidden} hidden, {ways}" + (f", {self.layers} layers" if self.layers > 1 else "")

    @property
    def family(self) -> str:
        """See ``NodeSpec``."""
        return "recurrence"

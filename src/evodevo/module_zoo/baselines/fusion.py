"""Baselines that fuse one vector per modality: an MLP over both, a network for each, the gated multimodal unit.

With a single modality each is reduced to the rest: one vector is read instead of two, and the gated unit has no gate.

Legend: B samples, M modalities (1 or 2), d width.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from evodevo.module_zoo.baselines.spec import BaselineStructure
from evodevo.module_zoo.baselines.trunk import Trunk, TrunkOutput
from evodevo.module_zoo.encoders.model import EncodedModality
from evodevo.operators.feed_forward import ACTIVATIONS


class Perceptron(nn.Module):
    """Hidden layers with an activation and dropout after each, and a linear layer to d.

    Args:
        inputs: Length of its input.
        structure: Hidden layers, their units, the activation, dropout, and d.
    """

    def __init__(self, inputs: int, structure: BaselineStructure) -> None:
        super().__init__()
        sizes = [inputs, *[structure.hidden] * structure.layers]
        self.layers = nn.ModuleList(nn.Linear(*pair) for pair in pairwise(sizes))
        self.out = nn.Linear(sizes[-1], structure.width)
        self.activation = ACTIVATIONS[structure.activation]
        self.dropout = nn.Dropout(structure.dropout)

    def forward(self, x: Tensor) -> Tensor:
        """(B, inputs) -> (B, d)."""
        for layer in self.layers:
            assert isinstance(layer, nn.Linear)
            x = self.dropout(self.activation(layer(x)))
        y: Tensor = self.out(x)
        return y


class ConcatTrunk(Trunk):
    """An MLP over the modalities' vectors side by side."""

    def __init__(self, structure: BaselineStructure, modalities: int) -> None:
        super().__init__()
        self.mix = Perceptron(modalities * structure.width, structure)

    def forward(self, senses: Sequence[EncodedModality]) -> TrunkOutput:
        """See ``Trunk``."""
        return _thought(self.mix(torch.cat([sense.vector for sense in senses], -1)))


class LateTrunk(Trunk):
    """A network per modality and an MLP over their outputs (late fusion, as AutoGluon's multimodal predictor).

    ``TrunkOutput.sides`` holds the output of each modality's network; the baseline has heads and losses for each.
    """

    def __init__(self, structure: BaselineStructure, modalities: int) -> None:
        super().__init__()
        self.each = nn.ModuleList(Perceptron(structure.width, structure) for _ in range(modalities))
        self.mix = Perceptron(modalities * structure.width, structure)

    def forward(self, senses: Sequence[EncodedModality]) -> TrunkOutput:
        """See ``Trunk``."""
        sides = tuple(network(sense.vector) for network, sense in zip(self.each, senses, strict=True))
        return _thought(self.mix(torch.cat(sides, -1)), sides)


class GatedTrunk(Trunk):
    """The gated multimodal unit (Arevalo et al. 2017, eqs. 1 to 5), then an MLP.

    h_m = tanh(W_m s_m), g = sigmoid(W_g [s_v; s_t]), h = g h_v + (1 - g) h_t, channel by channel and without biases,
    as printed.
    """

    def __init__(self, structure: BaselineStructure, modalities: int) -> None:
        super().__init__()
        width = structure.width
        self.each = nn.ModuleList(nn.Linear(width, width, bias=False) for _ in range(modalities))
        self.gate = nn.Linear(2 * width, width, bias=False) if modalities == 2 else None
        self.mix = Perceptron(width, structure)

    def forward(self, senses: Sequence[EncodedModality]) -> TrunkOutput:
        """See ``Trunk``."""
        outputs = [torch.tanh(layer(sense.vector)) for layer, sense in zip(self.each, senses, strict=True)]
        h = outputs[0]
        if self.gate is not None:
            gate = torch.sigmoid(self.gate(torch.cat([sense.vector for sense in senses], -1)))
            h = gate * outputs[0] + (1 - gate) * outputs[1]
        return _thought(self.mix(h))


def _thought(pooled: Tensor, sides: tuple[Tensor, ...] = ()) -> TrunkOutput:
    return TrunkOutput(pooled.unsqueeze(1), None, pooled, sides)

"""A plain network: an encoder per kind of input, concatenation, a head.

Legend: B samples.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import cast

import torch
from torch import Tensor, nn

from evodevo.errors import UsageError
from evodevo.estimators.automatic.networks.image_encoder import ResidualImages
from evodevo.estimators.automatic.networks.number_encoders import MlpNumbers, PiecewiseNumbers, ResidualNumbers
from evodevo.estimators.automatic.networks.numbers import NumberReading
from evodevo.estimators.automatic.networks.patch_encoder import PatchImages
from evodevo.estimators.automatic.networks.reading import NetworkReading
from evodevo.estimators.automatic.networks.root_encoder import RootImages
from evodevo.estimators.automatic.networks.spec import PlainStructure
from evodevo.estimators.automatic.networks.text_encoders import EMBEDDING_STD, RecurrentTexts, WeightedTerms
from evodevo.networks.outputs import answer_loss
from evodevo.tasks.base import OutputSpec

NUMBERS: Mapping[str, Callable[[NumberReading, int, float], nn.Module]] = {
    "mlp": MlpNumbers,
    "residual": ResidualNumbers,
    "pieces": PiecewiseNumbers,
}


class PlainNetwork(nn.Module):
    """The network that a ``PlainStructure`` describes.

    Raises:
        UsageError: It reads an input that the training samples lacked, or none.
    """

    def __init__(self, structure: PlainStructure, reading: NetworkReading, output: OutputSpec) -> None:
        super().__init__()
        self.output = output
        self.encoders = nn.ModuleDict(_encoders(structure, reading))
        width = sum(cast(int, encoder.width) for encoder in self.encoders.values())
        self.dropout = nn.Dropout(structure.dropout)
        several = len(self.encoders) > 1
        inner = structure.hidden if several else width
        self.between = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, inner), nn.SiLU()) if several else None
        self.head = nn.Linear(inner, output.size)
        nn.init.normal_(self.head.weight, std=0.02)
        nn.init.zeros_(self.head.bias)
        self.direct: WeightedTerms | None = None
        if structure.text == "terms" and reading.text is not None:
            self.direct = WeightedTerms(len(reading.text.terms.terms), output.size, structure.word_dropout, 0.0)

    def forward(self, batch: dict[str, Tensor]) -> dict[str, Tensor]:
        """Logits (B, size) by output."""
        encoded = [encoder(batch) for encoder in self.encoders.values()]
        x = self.dropout(encoded[0] if len(encoded) == 1 else torch.cat(encoded, 1))
        if self.between is not None:
            x = self.dropout(self.between(x))
        logits = self.head(x)
        return {self.output.name: logits if self.direct is None else logits + self.direct(batch)}

    def loss(self, batch: dict[str, Tensor]) -> Tensor:
        """Mean loss of the answers, in nats."""
        return answer_loss(self.output, self(batch)[self.output.name], batch[f"{self.output.name}/target"])


def _encoders(structure: PlainStructure, reading: NetworkReading) -> dict[str, nn.Module]:
    encoders: dict[str, nn.Module] = {}
    wanted = {"image": structure.image, "text": structure.text, "numbers": structure.numbers}
    for name, kind in wanted.items():
        if kind is not None and getattr(reading, name) is None:
            raise UsageError(f"the network reads {name}, which the training samples lack.")
    if structure.image is not None and reading.image is not None:
        if structure.root is not None:
            encoders["image"] = RootImages(structure.root)
        elif structure.image == "patches":
            encoders["image"] = PatchImages(reading.image, structure.width)
        else:
            encoders["image"] = ResidualImages(reading.image, structure.channels, fine=structure.fine)
    if structure.text is not None and reading.text is not None:
        if structure.text == "terms":
            encoders["text"] = WeightedTerms(
                len(reading.text.terms.terms), structure.width, structure.word_dropout, EMBEDDING_STD
            )
        else:
            encoders["text"] = RecurrentTexts(
                len(reading.text.words) + 2, structure.width, structure.dropout, structure.word_dropout
            )
    if structure.numbers is not None and reading.numbers is not None:
        encoders["numbers"] = NUMBERS[structure.numbers](reading.numbers, structure.width, structure.dropout)
    if not encoders:
        raise UsageError("a plain network needs an encoder of at least one kind of input.")
    return encoders

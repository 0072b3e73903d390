"""Encoders of columns of numbers.

Legend: B samples, G columns, d width, I intervals of the column with most.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from evodevo.estimators.automatic.networks.numbers import VECTORS, NumberReading

BLOCKS = 2
WIDEST = 256
PIECE_WIDTH = 8
"""Entries of the embedding of a number in ``PiecewiseNumbers``."""


def _mlp(before: int, width: int, dropout: float) -> nn.Sequential:
    layers: list[nn.Module] = []
    for _ in range(BLOCKS):
        layers += [nn.Linear(before, width), nn.SiLU(), nn.Dropout(dropout)]
        before = width
    return nn.Sequential(*layers)


class MlpNumbers(nn.Module):
    """A multilayer perceptron on scaled numbers.

    Attributes:
        width: Entries of a vector.
    """

    def __init__(self, reading: NumberReading, width: int, dropout: float) -> None:
        super().__init__()
        self.width = min(WIDEST, 4 * width)
        self.layers = _mlp(reading.size, self.width, dropout)

    def forward(self, batch: dict[str, Tensor]) -> Tensor:
        """Vectors (B, width)."""
        y: Tensor = self.layers(batch[VECTORS])
        return y


class ResidualNumbers(nn.Module):
    """Residual blocks with layer norm (Gorishniy et al. 2021, with layer norm for batch norm).

    Attributes:
        width: Entries of a vector.
    """

    def __init__(self, reading: NumberReading, width: int, dropout: float) -> None:
        super().__init__()
        self.width = min(WIDEST, 2 * width)
        self.first = nn.Linear(reading.size, self.width)
        self.blocks = nn.ModuleList(
            nn.Sequential(
                nn.LayerNorm(self.width),
                nn.Linear(self.width, 2 * self.width),
                nn.ReLU(),
                nn.Dropout(dropout),
                nn.Linear(2 * self.width, self.width),
            )
            for _ in range(BLOCKS)
        )
        self.norm = nn.LayerNorm(self.width)

    def forward(self, batch: dict[str, Tensor]) -> Tensor:
        """Vectors (B, width)."""
        x = self.first(batch[VECTORS])
        for block in self.blocks:
            x = x + block(x)
        return F.relu(self.norm(x))


class PiecewiseNumbers(nn.Module):
    """Each number as its place in each interval between quantiles, 0 to 1; a linear map per column; then an MLP.

    Source: Gorishniy, Rubachev, Babenko 2022, "On embeddings for numerical features".

    Attributes:
        width: Entries of a vector.
    """

    begin: Tensor
    length: Tensor
    real: Tensor

    def __init__(self, reading: NumberReading, width: int, dropout: float) -> None:
        super().__init__()
        self.width = min(WIDEST, 4 * width)
        for name, table in _intervals(reading.edges).items():
            self.register_buffer(name, table, persistent=False)
        columns, most = self.begin.shape
        self.weight = nn.Parameter(torch.randn(columns, most, PIECE_WIDTH) * most**-0.5)
        self.bias = nn.Parameter(torch.zeros(columns, PIECE_WIDTH))
        self.layers = _mlp(columns * PIECE_WIDTH, self.width, dropout)

    def forward(self, batch: dict[str, Tensor]) -> Tensor:
        """Vectors (B, width)."""
        x = batch[VECTORS][:, :, None]
        places = ((x - self.begin) / self.length).clamp(0, 1) * self.real  # (B, G, I)
        embedded = F.relu(torch.einsum("bgi,gid->bgd", places, self.weight) + self.bias)
        y: Tensor = self.layers(embedded.flatten(1))
        return y


def _intervals(edges: Sequence[Sequence[float]]) -> dict[str, Tensor]:
    """Begin, length and existence of the intervals, (G, I) each."""
    most = max(map(len, edges)) - 1
    begin, length, real = torch.zeros(len(edges), most), torch.ones(len(edges), most), torch.zeros(len(edges), most)
    for row, column in enumerate(edges):
        values, count = torch.tensor(column), len(column) - 1
        begin[row, :count], length[row, :count], real[row, :count] = values[:-1], values.diff(), 1.0
    return {"begin": begin, "length": length.clamp(min=1e-6), "real": real}

"""Images by patches: the cheapest network that sees where in an image something is.

Legend: B samples, C channels.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from evodevo.estimators.automatic.networks.images import IMAGE, ImageReading

ACROSS = 8
"""Largest number of patches along the longer side."""


class PatchImages(nn.Module):
    """Images to vectors: a linear map of each patch, ReLU, and a linear map of them all; a learned vector replaces an
    image that a sample lacks.

    Args:
        reading: Size, mean and deviation of the training images.
        width: Channels of a patch, and entries of a vector.

    Attributes:
        width: Entries of a vector.
    """

    mean: Tensor
    deviation: Tensor

    def __init__(self, reading: ImageReading, width: int) -> None:
        super().__init__()
        height, broad, colours = reading.shape
        for name, values in (("mean", reading.mean), ("deviation", reading.deviation)):
            self.register_buffer(name, torch.tensor(values)[:, None, None], persistent=False)
        side = -(-max(height, broad) // ACROSS)
        rows, columns = -(-height // side), -(-broad // side)
        self.beyond = (0, columns * side - broad, 0, rows * side - height)
        self.patches = nn.Conv2d(colours, width, side, side)
        self.positions = nn.Linear(width * rows * columns, width)
        self.width = width
        self.missing = nn.Parameter(torch.zeros(width))

    def forward(self, batch: dict[str, Tensor]) -> Tensor:
        """Vectors (B, width)."""
        x = batch[IMAGE].permute(0, 3, 1, 2).to(self.mean.dtype) / 255
        x = F.relu(self.patches(F.pad((x - self.mean) / self.deviation, self.beyond)))
        vectors = F.relu(self.positions(x.flatten(1)))
        return torch.where(batch[f"{IMAGE}/present"][:, None], vectors, self.missing)

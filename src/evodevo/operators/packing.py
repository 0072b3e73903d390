"""Some positions of each sample, moved together, so that only these are computed.

Legend: B batch, T positions, N chosen positions of all samples, K of the sample that has most of them.
"""

from __future__ import annotations

import torch
from torch import Tensor


class Packing:
    """The true positions of a mask, those of each sample from the front.

    Args:
        where: (B, T), true at N positions. Their greatest number in a sample is fetched from the device once.

    Attributes:
        where: the mask.
        real: (B, K), false in slots that a sample leaves empty.
        positions: (B, K), position of each slot; 0 in empty ones.
    """

    def __init__(self, where: Tensor) -> None:
        self.where = where
        counts = where.sum(1)
        size = int(counts.max()) if len(counts) else 0
        self.rows, places = where.nonzero(as_tuple=True)
        self.slots = (where.cumsum(1) - 1)[self.rows, places]
        self.real = torch.arange(size, device=where.device) < counts.unsqueeze(1)
        self.positions = self.spread(places)

    def spread(self, values: Tensor) -> Tensor:
        """(N, ...) in the order of ``where.nonzero()`` -> (B, K, ...), 0 in empty slots."""
        packed = values.new_zeros(*self.real.shape, *values.shape[1:])
        return packed.index_put((self.rows, self.slots), values)

    def gather(self, packed: Tensor) -> Tensor:
        """(B, K, ...) -> (N, ...), the inverse of ``spread``."""
        return packed[self.rows, self.slots]

"""Rotary position embedding (Su et al. 2021), in the half-split layout."""

from __future__ import annotations

import torch
from torch import Tensor

BASE = 10000.0


class Rotary:
    """Cosines and sines of positions (the first half of the sines negative), made once and kept.

    A plain object, neither parameter nor buffer: it is a cache of constants that any device and precision can rebuild.
    """

    def __init__(self, head_size: int) -> None:
        self.head_size = head_size
        self._table: tuple[Tensor, Tensor] | None = None

    def __call__(self, x: Tensor, positions: Tensor | slice) -> Tensor:
        """Rotate.

        Args:
            x: (B, H, T, P).
            positions: (B, T) integers, or a slice of consecutive ones for all rows.
        """
        stop = positions.stop if isinstance(positions, slice) else int(positions.max()) + 1 if positions.numel() else 0
        cos, sin = self._tables(stop, x)
        if isinstance(positions, slice):
            cos, sin = cos[positions], sin[positions]
        else:
            cos, sin = cos[positions].unsqueeze(1), sin[positions].unsqueeze(1)
        # (-x2, x1) sin = (x2, x1) (-sin, sin): the table holds the sign. Slices would be undone one by one in backward.
        return torch.addcmul(x * cos, x.roll(self.head_size // 2, -1), sin)

    def _tables(self, stop: int, like: Tensor) -> tuple[Tensor, Tensor]:
        table = self._table
        if table is None or table[0].shape[0] < stop or table[0].dtype != like.dtype or table[0].device != like.device:
            size = max(128, 1 << (stop - 1).bit_length() if stop > 1 else 1)
            with torch.inference_mode(False):  # a table made while generating must serve training later
                even = torch.arange(0, self.head_size, 2, device=like.device, dtype=torch.float64)
                places = torch.arange(size, device=like.device, dtype=torch.float64)
                angles = torch.outer(places, BASE ** -(even / self.head_size)).repeat(1, 2)
                sign = torch.ones_like(even).neg().repeat(2)
                sign[even.shape[0] :] = 1.0
                table = angles.cos().to(like.dtype), (sign * angles.sin()).to(like.dtype)
            self._table = table
        return table

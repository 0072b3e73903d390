"""The layer between the mixture of the modules and the heads.

Legend: B samples, d width, h hidden units.
"""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional as F

from evodevo.operators.liv import NORM_EPSILON


class Readout(nn.Module):
    """z + V gelu(U norm(z)) with biases; V starts at 0, so that it passes z on at first.

    A linear head reads the mean over positions of what modules answer. Where a module works on each position by itself,
    as an MLP does, image and text only add up in it; here they are combined.
    """

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.norm = nn.RMSNorm(width, eps=NORM_EPSILON)
        self.up = nn.Linear(width, hidden)
        self.down = nn.Linear(hidden, width)
        nn.init.zeros_(self.down.weight)
        nn.init.zeros_(self.down.bias)

    def forward(self, z: Tensor) -> Tensor:
        """(B, d) -> (B, d)."""
        inner: Tensor = self.down(F.gelu(self.up(self.norm(z))))
        return z + inner

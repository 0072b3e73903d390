"""A small residual convolutional network.

Legend: B samples, C channels.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from evodevo.estimators.automatic.networks.images import IMAGE, ImageReading

GROUP = 8
"""Channels of a group of the norms."""
STAGES = 3
COARSE, FINE = 16, 32
"""Height or width, whichever is larger, to which the stem brings images at least."""


class _ResidualBlock(nn.Module):
    """Norm, convolution, norm, convolution, beside a shortcut (He et al. 2016, pre-activation)."""

    def __init__(self, before: int, channels: int, stride: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.GroupNorm(width // GROUP, width) for width in (before, channels))
        self.first = nn.Conv2d(before, channels, 3, stride, 1, bias=False)
        self.second = nn.Conv2d(channels, channels, 3, 1, 1, bias=False)
        changes = stride > 1 or before != channels
        self.shortcut = nn.Conv2d(before, channels, 1, stride, bias=False) if changes else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        """(B, C, height, width) -> (B, C', height / stride, width / stride)."""
        h = F.relu(self.norms[0](x))
        y: Tensor = self.second(F.relu(self.norms[1](self.first(h))))
        around: Tensor = self.shortcut(h)
        return y + around


class ResidualImages(nn.Module):
    """Images to vectors; a learned vector replaces an image that a sample lacks.

    Args:
        reading: Size, mean and deviation of the training images.
        channels: C of the first stage.
        fine: See ``PlainStructure``.

    Attributes:
        width: Entries of a vector.
    """

    mean: Tensor
    deviation: Tensor

    def __init__(self, reading: ImageReading, channels: int, *, fine: bool) -> None:
        super().__init__()
        height, width, colours = reading.shape
        for name, values in (("mean", reading.mean), ("deviation", reading.deviation)):
            self.register_buffer(name, torch.tensor(values)[:, None, None], persistent=False)
        stride, side = 1, max(height, width)
        while side > (FINE if fine else COARSE) * 1.5:
            stride, side = 2 * stride, -(-side // 2)
        self.stem = nn.Conv2d(colours, channels, stride + 2, stride, (stride + 1) // 2, bias=False)
        blocks, before = [], channels
        for stage in range(STAGES):
            after = channels << stage
            blocks.append(_ResidualBlock(before, after, 2 if stage and side > 2 else 1))
            side = -(-side // 2) if stage else side
            before = after
        self.blocks = nn.Sequential(*blocks)
        self.norm = nn.GroupNorm(before // GROUP, before)
        self.width = before
        self.missing = nn.Parameter(torch.zeros(before))

    def forward(self, batch: dict[str, Tensor]) -> Tensor:
        """Vectors (B, width)."""
        x = batch[IMAGE].permute(0, 3, 1, 2).to(self.mean.dtype) / 255
        x = self.stem(((x - self.mean) / self.deviation).contiguous(memory_format=torch.channels_last))
        pooled = F.relu(self.norm(self.blocks(x))).mean((2, 3))
        return torch.where(batch[f"{IMAGE}/present"][:, None], pooled, self.missing)

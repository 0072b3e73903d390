"""Contrastive alignment of the two sides of a sample (eq. 38; docs/spec/architect_thyself.md#alignment).

Legend: B samples, d width.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from evodevo.operators.base import full_precision

LOWEST, HIGHEST = 0.01, 1.0
"""Bounds of the temperature."""


class Alignment(nn.Module):
    """InfoNCE on cosine similarity, with a learned temperature.

    Args:
        temperature: at the start.
        both: the mean of text to image and image to text; false takes text to image alone, as printed.
    """

    def __init__(self, temperature: float = 0.07, *, both: bool = True) -> None:
        super().__init__()
        self.log_temperature = nn.Parameter(torch.tensor(math.log(temperature)))
        self.both = both

    @property
    def temperature(self) -> Tensor:
        """tau, in [0.01, 1]; the gradient passes through the bounds, so that the parameter finds back."""
        tau = self.log_temperature.exp()
        return tau + (tau.clamp(LOWEST, HIGHEST) - tau).detach()

    def forward(
        self,
        images: Tensor,
        texts: Tensor,
        matched: Tensor | None = None,
        same: tuple[Tensor, Tensor] | None = None,
    ) -> Tensor:
        """The mean loss of matched pairs in nats; 0 where there are fewer than two.

        Args:
            images, texts: s of the two sides, (B, d).
            matched: (B,), true where the two sides of a sample belong together; None where all do. Others are left
                out, as they would be negatives that mean nothing.
            same: two (B,) tensors of integers: equal numbers mean equal images, equal texts. Pairs that share one or
                the other are positives of each other: the mean of their probabilities' logarithms counts.
        """
        if matched is not None:
            images, texts = images[matched], texts[matched]
            same = None if same is None else (same[0][matched], same[1][matched])
        if len(images) < 2:
            return images.new_zeros((), dtype=torch.promote_types(images.dtype, torch.float32))
        with full_precision(images.device):
            x, y = (
                F.normalize(side.to(torch.promote_types(side.dtype, torch.float32)), dim=-1) for side in (images, texts)
            )
            logits = y @ x.T / self.temperature  # texts by images
        positive = torch.eye(len(images), dtype=torch.bool, device=images.device)
        if same is not None:
            # Equal images or texts are no negatives, or the loss would push equal vectors apart.
            for numbers in same:
                positive = positive | (numbers[:, None] == numbers)
        loss = _contrast(logits, positive)
        return (loss + _contrast(logits.T, positive.T)) / 2 if self.both else loss


def _contrast(logits: Tensor, positive: Tensor) -> Tensor:
    """Mean over rows of -log softmax, averaged over the positives of each row."""
    losses = -(logits.log_softmax(1) * positive).sum(1) / positive.sum(1)
    return losses.mean()


def numbered(raw: Tensor) -> Tensor:
    """(B,) integers that are equal where samples (B, ...) are equal, and there alone, for ``Alignment``."""
    rows = raw.reshape(len(raw), math.prod(raw.shape[1:]))
    if not rows.shape[1]:  # which ``unique`` refuses: nothing equals nothing
        return torch.zeros(len(rows), dtype=torch.int64, device=raw.device)
    numbers: Tensor = torch.unique(rows, dim=0, return_inverse=True)[1]
    return numbers

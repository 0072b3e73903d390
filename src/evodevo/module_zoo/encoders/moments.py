"""The summary of a whole modality: s = W [mean; upper triangle of U' Sigma U] (eqs. 29 to 31, 34 to 36).

Legend: B samples, L positions, d_m channels of the features, d width, k rank, q = k (k + 1) / 2.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import parametrize

from evodevo.module_zoo.encoders.spec import statistics_rank
from evodevo.module_zoo.spec import StatisticsStructure
from evodevo.networks.routing.pools import masked_mean
from evodevo.operators.base import full_precision

_ROOT_EPSILON = 1e-6


class Orthonormal(nn.Module):
    """A parametrization: the matrix (d_m, k) with orthonormal columns that spans what the parameter spans.

    PyTorch's own Householder parametrization keeps its signs on a diagonal that weight decay pulls away from 1, and
    is then zero; here the scale of the parameter has no influence. The diagonal of R is made positive, so that the
    columns move continuously.
    """

    def forward(self, weight: Tensor) -> Tensor:
        """(d_m, k) -> (d_m, k)."""
        q, r = torch.linalg.qr(weight.to(torch.promote_types(weight.dtype, torch.float32)))  # no 16-bit one exists
        columns: Tensor = q * torch.where(r.diagonal() < 0, -1.0, 1.0).to(q.dtype)
        return columns.to(weight.dtype)


class Statistics(nn.Module):
    """Features (B, L, d_m) to one vector (B, d).

    Args:
        channels: d_m.
        width: d.
        structure: settings of the statistics.
        length: largest number of positions of the features; a single one has no covariance.

    Attributes:
        rank: k; 0 where there is no covariance.
        basis: U, (d_m, k), with orthonormal columns.
    """

    def __init__(self, channels: int, width: int, structure: StatisticsStructure, length: int) -> None:
        super().__init__()
        self.kind = structure.kind
        self.root = structure.root
        self.rank = statistics_rank(structure, channels, length)
        numbers = self.rank * (self.rank + 1) // 2
        if self.rank:
            self.basis = nn.Parameter(torch.randn(channels, self.rank))
            parametrize.register_parametrization(self, "basis", Orthonormal())
            self.register_buffer("places", torch.triu_indices(self.rank, self.rank), persistent=False)
        self.norm = nn.LayerNorm(numbers) if self.root and numbers else None
        self.project = nn.Linear(channels + numbers, width)

    def forward(self, h: Tensor, mask: Tensor | None = None) -> Tensor:
        """s, (B, d); of a sample without any real position, that of zeros."""
        s: Tensor = self.project(self.summary(h, mask).to(h.dtype))
        return s

    def summary(self, h: Tensor, mask: Tensor | None = None) -> Tensor:
        """Input of W, (B, d_m + q), in float32 at least."""
        with full_precision(h.device):
            precise = h.to(torch.promote_types(h.dtype, torch.float32))
            if self.kind == "cls":
                return precise[:, 0] if mask is None else precise[:, 0] * mask[:, :1]
            mean = masked_mean(precise, mask)
            return mean if not self.rank else torch.cat([mean, self.covariance(precise, mean, mask)], -1)

    def covariance(self, h: Tensor, mean: Tensor, mask: Tensor | None) -> Tensor:
        """c, (B, q): the upper triangle of U' Sigma U, row by row, Sigma with the number of positions below it.

        The (d_m, d_m) matrix Sigma itself is never made.
        """
        deviation = h - mean.unsqueeze(1)
        if mask is not None:
            # Padding would count as a deviation from the mean.
            deviation = deviation * mask.unsqueeze(-1)
        projected = deviation @ self.basis.to(h.dtype)  # (B, L, k)
        count = h.shape[1] if mask is None else mask.sum(1).clamp(min=1).to(h.dtype)[:, None, None]
        square = projected.mT @ projected / count  # (B, k, k)
        rows, columns = self.get_buffer("places")
        c = square[:, rows, columns]
        if self.norm is None:
            return c
        # The signed square root, made smooth at 0.
        c = c.sign() * ((c.abs() + _ROOT_EPSILON).sqrt() - _ROOT_EPSILON**0.5)
        return F.layer_norm(c, c.shape[-1:], self.norm.weight.to(c.dtype), self.norm.bias.to(c.dtype))

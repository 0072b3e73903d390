"""Norm, linear map and gate: what is done to the channels of each position alone.

Legend: B samples, L positions, w channels that a node reads, w' channels of its answer.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from evodevo.module_zoo.modules.nodes.base_model import WholeSequence


class Norm(WholeSequence):
    """Layer norm over channels."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)

    def _read(self, x: Tensor, mask: Tensor | None) -> Tensor:
        y: Tensor = self.norm(x)
        return y


class ProjectionModule(WholeSequence):
    """A linear map to w' channels."""

    def __init__(self, width: int, outer: int) -> None:
        super().__init__()
        self.map = nn.Linear(width, outer)

    def _read(self, x: Tensor, mask: Tensor | None) -> Tensor:
        y: Tensor = self.map(x)
        return y


class GateModule(WholeSequence):
    """Every channel times a learned number that starts at ``start``."""

    def __init__(self, width: int, start: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.full((width,), start))
        self.weight.no_weight_decay = True  # type: ignore[attr-defined]

    def _read(self, x: Tensor, mask: Tensor | None) -> Tensor:
        return x * self.weight

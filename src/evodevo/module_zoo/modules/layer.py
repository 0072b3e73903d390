"""A module of a zoo as a hidden layer of an H-Model, so that whatever is done to modules can be done to such a layer.

Legend: B samples, S positions, d width.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from evodevo.module_zoo.modules.build import GraphModule
from evodevo.operators.base import Output


class PositionModule(GraphModule):
    """A graph each of whose nodes reads one position alone: it is causal, and continues token by token."""

    causal = True
    streamable = True

    def forward(
        self,
        x: Tensor,
        *,
        mask: Tensor | None = None,
        shared: Mapping[str, Any] | None = None,
        state: dict[str, Any] | None = None,
    ) -> Output:
        """(B, S, d) -> (B, S, d); see ``Operator``."""
        return Output(self._read(x, mask), {}, state)

    def initial_state(self, batch: int, max_length: int, dtype: torch.dtype, device: torch.device) -> dict[str, Any]:
        """Nothing is kept."""
        return {}

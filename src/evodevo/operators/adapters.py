"""Adapters of width: an operator of d_i channels among messages of d channels (H-Model 3.1).

Legend: B batch, T tokens, d width of the messages, d_i width inside.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from evodevo.operators.base import Operator, Output
from evodevo.operators.dense import affine


class Adapted(Operator):
    """The operator between two linear maps, d to d_i and back; it may be a whole block with its residual.

    Both maps start orthogonal: with d_i >= d the way in and the way out lose nothing.

    Args:
        operator: an operator on d_i channels.
        width: d.
        inner: d_i.
    """

    def __init__(self, operator: Operator, width: int, inner: int) -> None:
        super().__init__()
        self.causal, self.streamable = operator.causal, operator.streamable
        self.enter = nn.Linear(width, inner)
        self.operator = operator
        self.leave = nn.Linear(inner, width)
        for adapter in (self.enter, self.leave):
            nn.init.orthogonal_(adapter.weight)
            nn.init.zeros_(adapter.bias)

    def forward(
        self,
        x: Tensor,
        *,
        mask: Tensor | None = None,
        shared: Mapping[str, Any] | None = None,
        state: dict[str, Any] | None = None,
    ) -> Output:
        """See ``Operator``."""
        # Under autocast maps answer in half precision; a stream keeps the precision of what came in.
        output: Output = self.operator(affine(x, self.enter).to(x.dtype), mask=mask, state=state)
        return Output(affine(output.y, self.leave).to(x.dtype), {}, output.state)

    def initial_state(self, batch: int, max_length: int, dtype: torch.dtype, device: torch.device) -> dict[str, Any]:
        """The operator's."""
        return self.operator.initial_state(batch, max_length, dtype, device)

"""Multi-head self-attention without positions of its own (Vaswani et al. 2017): the inputs carry them.

Legend: B batch, T tokens of this call, S tokens seen so far, D width, H heads, P = D / H.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from evodevo.errors import UsageError
from evodevo.operators.base import Operator, Output, Slab


class SelfAttention(Operator):
    """Softmax attention of every token to every other, or to itself and earlier ones.

    Args:
        width: D.
        heads: H; must divide D.
        causal: whether later tokens are invisible.
        dropout: on the output while training.

    Raises:
        UsageError: heads that do not divide the width.
    """

    def __init__(self, width: int, heads: int, *, causal: bool, dropout: float = 0.0) -> None:
        super().__init__()
        if width % heads:
            raise UsageError(f"{heads} attention heads do not divide the width {width}; take one of its divisors.")
        self.heads = heads
        self.causal = causal
        self.streamable = causal
        self.dropout = dropout
        self.project = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(
        self,
        x: Tensor,
        *,
        mask: Tensor | None = None,
        shared: Mapping[str, Any] | None = None,
        state: dict[str, Any] | None = None,
    ) -> Output:
        """See ``Operator``. A row of the mask without any true gives finite numbers that mean nothing."""
        batch, tokens, width = x.shape
        query, key, value = self.project(x).view(batch, tokens, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        after: dict[str, Any] | None = None
        if state is not None:
            new = torch.ones(batch, tokens, dtype=torch.bool, device=x.device) if mask is None else mask
            key, value = state["key"].append(key), state["value"].append(value)
            mask, after = state["mask"].append(new), state
        mixed = F.scaled_dot_product_attention(
            query, key, value, attn_mask=self._visible(tokens, key.shape[2], mask), is_causal=self._plain(tokens, mask)
        )
        y: Tensor = self.out(mixed.transpose(1, 2).reshape(batch, tokens, width))
        return Output(F.dropout(y, self.dropout, self.training), {}, after)

    def initial_state(self, batch: int, max_length: int, dtype: torch.dtype, device: torch.device) -> dict[str, Any]:
        """Keys, values and which of them are real; causal attention only."""
        if not self.causal:
            raise UsageError("attention that looks both ways cannot go on token by token.")
        shape = (batch, self.heads, 0, self.project.in_features // self.heads)
        return {
            "key": Slab(shape, 2, max_length, dtype, device),
            "value": Slab(shape, 2, max_length, dtype, device),
            "mask": Slab((batch, 0), 1, max_length, torch.bool, device),
        }

    def _plain(self, tokens: int, mask: Tensor | None) -> bool:
        return self.causal and mask is None and tokens > 1

    def _visible(self, tokens: int, seen: int, mask: Tensor | None) -> Tensor | None:
        """(B or 1, 1, T or 1, S), true where a query sees a key; None where a flag says it all."""
        if mask is None:
            return None
        # With every key hidden there is no softmax; what such a row says is thrown away by whoever masked it.
        visible = (mask | ~mask.any(1, keepdim=True))[:, None, None, :]
        if not self.causal or tokens == 1:
            return visible
        order = torch.ones(tokens, seen, dtype=torch.bool, device=mask.device).tril(seen - tokens)
        visible = visible & order
        # A query before the first real key sees at least itself.
        return visible | (
            ~visible.any(-1, keepdim=True) & torch.eye(tokens, seen, dtype=torch.bool, device=mask.device)
        )

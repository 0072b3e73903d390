"""Multi-head self-attention without positions of its own (Vaswani et al. 2017): the inputs carry them.

Legend: B batch, T tokens of this call, S tokens seen with them, D width, H heads, P = D / H; N chosen positions of all
samples, K of the sample that has most of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from evodevo.errors import UsageError
from evodevo.operators.attention import attend
from evodevo.operators.base import Operator, Output, Slab
from evodevo.operators.featurizer_spec import SOFTMAX
from evodevo.operators.grouped import Grouped, GroupedAffine, Signature, Stack, dropout_now, signature, together


@dataclass(frozen=True)
class GroupedAttention(Grouped):
    """Heads and layers are both folded into the batch of one attention."""

    project: GroupedAffine
    out: GroupedAffine
    heads: int
    causal: bool
    dropout: float

    @classmethod
    def of(cls, operators: Sequence[SelfAttention], stack: Stack) -> Self:
        project = GroupedAffine.of([operator.project for operator in operators], stack)
        out = GroupedAffine.of([operator.out for operator in operators], stack)
        return cls(
            project,
            out,
            operators[0].heads,
            operators[0].causal,
            dropout_now(operators[0]),
        )

    @staticmethod
    def signature(operator: SelfAttention) -> Signature | None:
        maps = signature(operator.project), signature(operator.out)
        return together("attention", *maps, operator.heads, operator.causal, dropout_now(operator))

    def __call__(self, x: Tensor, mask: Tensor | None) -> Tensor:
        layers, batch, length, _ = x.shape
        packed = self.project(x).view(layers * batch, length, 3, self.heads, -1)
        query, key, value = packed.permute(2, 0, 3, 1, 4).unbind(0)  # (G B, h, S, p)
        valid = None if mask is None else mask.flatten(0, 1)
        if self.causal:
            mixed = attend(query, key, value, valid=valid, band=None, nonlinearity=SOFTMAX)
        else:
            mixed = F.scaled_dot_product_attention(query, key, value, attn_mask=visible_keys(valid))
        y = self.out(mixed.transpose(1, 2).reshape(x.shape))
        return F.dropout(y, self.dropout) if self.dropout else y


class SelfAttention(Operator):
    """Softmax attention of every token to every other, or to itself and earlier ones.

    A row of the mask without any true attends to all of its tokens: finite numbers, which mean nothing.

    Args:
        width: D.
        heads: H; must divide D.
        causal: whether later tokens are invisible.
        dropout: probability of dropout on the output while training, 0 to 1.

    Raises:
        UsageError: heads that do not divide the width.
    """

    grouped = GroupedAttention
    skips_padding = True

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
        """See ``Operator``."""
        split = (*x.shape[:2], 3, self.heads, x.shape[2] // self.heads)
        query, key, value = self.project(x).view(split).unbind(2)  # (B, T, H, P)
        valid, after = mask, None
        if state is not None:
            key, value, valid, after = self._remember(key, value, mask, state)
        query, key, value = (heads.transpose(1, 2) for heads in (query, key, value))
        if self.causal:
            mixed = attend(query, key, value, valid=valid, band=None, nonlinearity=SOFTMAX)
        else:
            mixed = F.scaled_dot_product_attention(query, key, value, attn_mask=visible_keys(valid))
        y = self.out(mixed.transpose(1, 2).flatten(2))
        return Output(F.dropout(y, self.dropout, self.training), {}, after)

    def at(self, x: Tensor, wanted: Tensor, *, mask: Tensor | None = None) -> Tensor:
        """See ``Operator``: queries at the wanted positions, keys and values at the real ones."""
        if not bool(wanted.any()):
            return x[wanted]
        width, size = x.shape[2], x.shape[2] // self.heads
        real = torch.ones_like(wanted) if mask is None else mask
        asked, known = ChosenPositions(wanted), ChosenPositions(real)
        weight, bias = self.project.weight, self.project.bias
        query = asked.spread(F.linear(x[wanted], weight[:width], bias[:width]).view(-1, self.heads, size))
        both = known.spread(F.linear(x[real], weight[width:], bias[width:]).view(-1, 2, self.heads, size))
        visible = known.real.unsqueeze(1)
        if self.causal:
            visible = visible & (known.positions.unsqueeze(1) <= asked.positions.unsqueeze(2))
        # An empty slot attends to all, since softmax needs something; nobody reads it.
        visible = visible | ~asked.real.unsqueeze(2)
        key, value = (heads.transpose(1, 2) for heads in both.unbind(2))
        mixed = F.scaled_dot_product_attention(query.transpose(1, 2), key, value, attn_mask=visible.unsqueeze(1))
        y = self.out(asked.gather(mixed.transpose(1, 2).flatten(2)))
        return F.dropout(y, self.dropout, self.training)

    @staticmethod
    def _remember(
        key: Tensor, value: Tensor, mask: Tensor | None, state: dict[str, Any]
    ) -> tuple[Tensor, Tensor, Tensor | None, dict[str, Any]]:
        """Append to the state; returns keys, values and real tokens so far, and the state after this call."""
        batch, tokens = key.shape[:2]
        after = dict(state)
        valid = None
        if mask is not None or state["valid"] is not None:
            # Which tokens are real is only kept from the first mask on.
            slab = state["valid"]
            if slab is None:
                slab = Slab((batch, 0), 1, 0, torch.bool, key.device)
                slab.append(torch.ones(batch, state["key"].length, dtype=torch.bool, device=key.device))
            valid = slab.append(
                torch.ones(batch, tokens, dtype=torch.bool, device=key.device) if mask is None else mask
            )
            after["valid"] = slab
        return state["key"].append(key), state["value"].append(value), valid, after

    def initial_state(self, batch: int, max_length: int, dtype: torch.dtype, device: torch.device) -> dict[str, Any]:
        """Keys and values; ``valid`` appears with the first mask.

        Raises:
            UsageError: it is bidirectional.
        """
        if not self.causal:
            raise UsageError("attention that looks both ways cannot go on token by token; build it with causal=True.")
        shape = (batch, 0, self.heads, self.project.in_features // self.heads)
        return {
            "key": Slab(shape, 1, max_length, dtype, device),
            "value": Slab(shape, 1, max_length, dtype, device),
            "valid": None,
        }


class ChosenPositions:
    """The true positions of a mask, those of each sample moved to the front, so that only these are computed.

    Args:
        where: (B, T), true at N positions. Their greatest number in a sample is fetched from the device once.

    Attributes:
        real: (B, K), false in slots that a sample leaves empty.
        positions: (B, K), position of each slot; 0 in empty ones.
    """

    def __init__(self, where: Tensor) -> None:
        counts = where.sum(1)
        size = int(counts.max()) if len(counts) else 0
        self.rows, places = where.nonzero(as_tuple=True)
        self.slots = (where.cumsum(1) - 1)[self.rows, places]
        self.real = torch.arange(size, device=where.device) < counts.unsqueeze(1)
        self.positions = self.spread(places)

    def spread(self, values: Tensor) -> Tensor:
        """(N, ...) in the order of the mask's true entries -> (B, K, ...), 0 in empty slots."""
        packed = values.new_zeros(*self.real.shape, *values.shape[1:])
        return packed.index_put((self.rows, self.slots), values)

    def gather(self, packed: Tensor) -> Tensor:
        """(B, K, ...) -> (N, ...), the inverse of ``spread``."""
        return packed[self.rows, self.slots]


def visible_keys(mask: Tensor | None) -> Tensor | None:
    """(B, 1, 1, S) for attention both ways: the real tokens; all of them where none is, as softmax needs one."""
    return None if mask is None else (mask | ~mask.any(1, keepdim=True))[:, None, None, :]

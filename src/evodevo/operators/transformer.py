"""A pre-norm transformer block as one operator: the default layer of an H-Model (H-Model 6.2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor

from evodevo.operators.base import Operator, Output
from evodevo.operators.block import Block
from evodevo.operators.feed_forward import FeedForward
from evodevo.operators.grouped import Grouped, Signature, Stack, group, signature, together
from evodevo.operators.self_attention import SelfAttention
from evodevo.operators.spec import Activation


@dataclass(frozen=True)
class GroupedTransformer(Grouped):
    attention: Grouped
    feedforward: Grouped

    @classmethod
    def of(cls, operators: Sequence[TransformerBlock], stack: Stack) -> Self:
        attention = group([operator.attention for operator in operators], stack)
        return cls(attention, group([operator.feedforward for operator in operators], stack))

    @staticmethod
    def signature(operator: TransformerBlock) -> Signature | None:
        return together("transformer", signature(operator.attention), signature(operator.feedforward))

    def __call__(self, x: Tensor, mask: Tensor | None) -> Tensor:
        return self.feedforward(self.attention(x, mask), mask)


class TransformerBlock(Operator):
    """Attention and feed-forward, each with its norm and residual.

    Args:
        width: D.
        heads: attention heads.
        feedforward: hidden units.
        causal: whether later tokens are invisible.
        dropout: after both, while training.
        residual: false takes the residual connections away.
        activation: of the hidden units.
    """

    grouped = GroupedTransformer

    def __init__(
        self,
        width: int,
        heads: int,
        feedforward: int,
        *,
        causal: bool,
        dropout: float = 0.0,
        residual: bool = True,
        activation: Activation = "gelu",
    ) -> None:
        super().__init__()
        self.causal = causal
        self.streamable = causal
        self.skips_padding = True
        self.attention = Block(SelfAttention(width, heads, causal=causal, dropout=dropout), width, residual=residual)
        thought = FeedForward(width, feedforward, dropout=dropout, activation=activation)
        self.feedforward = Block(thought, width, residual=residual)

    def forward(
        self,
        x: Tensor,
        *,
        mask: Tensor | None = None,
        shared: Mapping[str, Any] | None = None,
        state: dict[str, Any] | None = None,
    ) -> Output:
        """See ``Operator``."""
        mixed = self.attention(x, mask=mask, state=state)
        return Output(self.feedforward(mixed.y, mask=mask).y, {}, mixed.state)

    def at(self, x: Tensor, wanted: Tensor, *, mask: Tensor | None = None) -> Tensor:
        """See ``Operator``: keys and values at all real positions, everything else at the wanted ones."""
        mixed = self.attention.at(x, wanted, mask=mask)
        y: Tensor = self.feedforward(mixed.unsqueeze(0)).y
        return y[0]

    def initial_state(self, batch: int, max_length: int, dtype: torch.dtype, device: torch.device) -> dict[str, Any]:
        """Attention's."""
        return self.attention.initial_state(batch, max_length, dtype, device)

"""A token-wise feed-forward network (Vaswani et al. 2017, with GELU)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from evodevo.operators.base import Operator, Output
from evodevo.operators.grouped import Grouped, GroupedAffine, Signature, Stack, dropout_now, signature, together
from evodevo.operators.spec import Activation

ACTIVATIONS: dict[Activation, Callable[[Tensor], Tensor]] = {"relu": F.relu, "gelu": F.gelu, "silu": F.silu}


@dataclass(frozen=True)
class GroupedFeedForward(Grouped):
    inner: GroupedAffine
    outer: GroupedAffine
    dropout: float

    @classmethod
    def of(cls, operators: Sequence[FeedForward], stack: Stack) -> Self:
        inner = GroupedAffine.of([operator.inner for operator in operators], stack)
        return cls(
            inner,
            GroupedAffine.of([operator.outer for operator in operators], stack),
            dropout_now(operators[0]),
        )

    @staticmethod
    def signature(operator: FeedForward) -> Signature | None:
        return together(
            "feedforward",
            signature(operator.inner),
            signature(operator.outer),
            dropout_now(operator),
        )

    def __call__(self, x: Tensor, mask: Tensor | None) -> Tensor:
        y = self.outer(F.gelu(self.inner(x)))
        return F.dropout(y, self.dropout) if self.dropout else y


class FeedForward(Operator):
    """y = W_2 phi(W_1 x): nothing passes between tokens."""

    grouped = GroupedFeedForward
    memoryless = True
    skips_padding = True

    def __init__(self, width: int, hidden: int, *, dropout: float = 0.0, activation: Activation = "gelu") -> None:
        super().__init__()
        self.activation = ACTIVATIONS[activation]
        self.inner = nn.Linear(width, hidden)
        self.outer = nn.Linear(hidden, width)
        self.dropout = dropout

    def forward(
        self,
        x: Tensor,
        *,
        mask: Tensor | None = None,
        shared: Mapping[str, Any] | None = None,
        state: dict[str, Any] | None = None,
    ) -> Output:
        """See ``Operator``."""
        y = self.outer(self.activation(self.inner(x)))
        return Output(F.dropout(y, self.dropout, self.training), {}, state)

    def initial_state(self, batch: int, max_length: int, dtype: torch.dtype, device: torch.device) -> dict[str, Any]:
        """Nothing is kept."""
        return {}

"""Adapters of width: an operator of d_i channels among messages of d channels (H-Model 3.1).

Legend: B batch, T tokens, d width of the messages, d_i width inside.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor, nn

from evodevo.operators.base import Operator, Output
from evodevo.operators.grouped import Grouped, GroupedAffine, Signature, Stack, group, signature, together


@dataclass(frozen=True)
class GroupedAdapted(Grouped):
    enter: GroupedAffine
    operator: Grouped
    leave: GroupedAffine

    @classmethod
    def of(cls, operators: Sequence[Adapted], stack: Stack) -> Self:
        enter = GroupedAffine.of([operator.enter for operator in operators], stack)
        leave = GroupedAffine.of([operator.leave for operator in operators], stack)
        return cls(enter, group([operator.operator for operator in operators], stack), leave)

    @staticmethod
    def signature(operator: Adapted) -> Signature | None:
        return together("adapted", signature(operator.enter), signature(operator.operator), signature(operator.leave))

    def __call__(self, x: Tensor, mask: Tensor | None) -> Tensor:
        return self.leave(self.operator(self.enter(x), mask))


class Adapted(Operator):
    """The operator between two linear maps, d to d_i and back; it may be a whole block with its residual.

    Both maps start orthogonal: with d_i >= d the way in and the way out lose nothing.

    Args:
        operator: an operator on d_i channels.
        width: d.
        inner: d_i.
    """

    grouped = GroupedAdapted

    def __init__(self, operator: Operator, width: int, inner: int) -> None:
        super().__init__()
        self.causal, self.streamable = operator.causal, operator.streamable
        self.memoryless, self.skips_padding = operator.memoryless, operator.skips_padding
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
        output: Output = self.operator(self.enter(x).to(x.dtype), mask=mask, state=state)
        return Output(self.leave(output.y).to(x.dtype), {}, output.state)

    def at(self, x: Tensor, wanted: Tensor, *, mask: Tensor | None = None) -> Tensor:
        """See ``Operator``; the way in is computed at real positions alone."""
        if self.memoryless:
            return super().at(x, wanted, mask=mask)
        if mask is None:
            entered = self.enter(x).to(x.dtype)
        else:
            entered = x.new_zeros(*x.shape[:2], self.enter.out_features)
            entered = entered.index_put((mask,), self.enter(x[mask]).to(x.dtype))
        y: Tensor = self.leave(self.operator.at(entered, wanted, mask=mask)).to(x.dtype)
        return y

    def initial_state(self, batch: int, max_length: int, dtype: torch.dtype, device: torch.device) -> dict[str, Any]:
        """The operator's."""
        return self.operator.initial_state(batch, max_length, dtype, device)

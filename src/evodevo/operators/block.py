"""A pre-norm residual block around any operator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor, nn

from evodevo.operators.base import Operator, Output
from evodevo.operators.grouped import Grouped, Signature, Stack, group, signature, together
from evodevo.operators.liv import NORM_EPSILON


@dataclass(frozen=True)
class GroupedBlock(Grouped):
    norm: Grouped
    operator: Grouped
    residual: bool

    @classmethod
    def of(cls, operators: Sequence[Block], stack: Stack) -> Self:
        norm = group([operator.norm for operator in operators], stack)
        return cls(norm, group([operator.operator for operator in operators], stack), operators[0].residual)

    @staticmethod
    def signature(operator: Block) -> Signature | None:
        return together("block", operator.residual, signature(operator.norm), signature(operator.operator))

    def __call__(self, x: Tensor, mask: Tensor | None) -> Tensor:
        y = self.operator(self.norm(x, None), mask)
        return x + y if self.residual else y


class Block(Operator):
    """x + T(norm(x)) norm(x) (STAR A.7).

    Args:
        operator: T.
        width: channels.
        normed: false for an operator that never reads its input: a gain without effect would be a parameter that no
            gradient reaches.
        residual: false leaves T(norm(x)) norm(x) alone, a control for deep stacks.
    """

    grouped = GroupedBlock

    def __init__(self, operator: Operator, width: int, *, normed: bool = True, residual: bool = True) -> None:
        super().__init__()
        self.causal, self.streamable = operator.causal, operator.streamable
        self.memoryless, self.skips_padding = operator.memoryless, operator.skips_padding
        self.residual = residual
        self.norm = nn.RMSNorm(width, eps=NORM_EPSILON) if normed else nn.Identity()
        self.operator = operator

    def forward(
        self,
        x: Tensor,
        *,
        mask: Tensor | None = None,
        shared: Mapping[str, Any] | None = None,
        state: dict[str, Any] | None = None,
    ) -> Output:
        """(B, T, D) -> the same shape; groups and state are the operator's."""
        output: Output = self.operator(self._normed(x), mask=mask, shared=shared, state=state)
        if self.residual:
            output.y = x + output.y
        return output

    def at(self, x: Tensor, wanted: Tensor, *, mask: Tensor | None = None) -> Tensor:
        """See ``Operator``."""
        if self.memoryless:
            return super().at(x, wanted, mask=mask)
        y = self.operator.at(self._normed(x), wanted, mask=mask)
        return x[wanted] + y if self.residual else y

    def _normed(self, x: Tensor) -> Tensor:
        # Under autocast a stream may be in half precision, and the gain is not.
        normed: Tensor = self.norm(x.to(self.norm.weight.dtype) if isinstance(self.norm, nn.RMSNorm) else x)
        return normed

    def initial_state(self, batch: int, max_length: int, dtype: torch.dtype, device: torch.device) -> dict[str, Any]:
        """The operator's."""
        return self.operator.initial_state(batch, max_length, dtype, device)

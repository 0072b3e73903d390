"""Differential operators: two identical LIVs in parallel, the difference as output (STAR A.6.2, last paragraph)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from evodevo.operators.base import Operator, Output
from evodevo.operators.liv import LIV


class Differential(Operator):
    """y = T¹(u) u - T²(u) u. Whatever a LIV shares, both copies share, copy by copy."""

    def __init__(self, first: LIV, second: LIV) -> None:
        super().__init__()
        self.first = first
        self.second = second

    def forward(
        self,
        x: Tensor,
        *,
        mask: Tensor | None = None,
        shared: Mapping[str, Any] | None = None,
        state: dict[str, Any] | None = None,
    ) -> Output:
        """See ``Operator``. Groups and states are keyed by copy, then by role."""
        outputs = {}
        for name, copy in (("first", self.first), ("second", self.second)):
            outputs[name] = copy(
                x,
                mask=mask,
                shared=None if shared is None else {role: lent[name] for role, lent in shared.items()},
                state=None if state is None else state[name],
            )
        first, second = outputs["first"], outputs["second"]
        groups = {role: {"first": first.groups[role], "second": second.groups[role]} for role in first.groups}
        after = None if state is None else {"first": first.state, "second": second.state}
        return Output(first.y - second.y, groups, after)

    def initial_state(self, batch: int, max_length: int, dtype: torch.dtype, device: torch.device) -> dict[str, Any]:
        """See ``Operator``."""
        return {
            "first": self.first.initial_state(batch, max_length, dtype, device),
            "second": self.second.initial_state(batch, max_length, dtype, device),
        }

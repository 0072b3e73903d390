"""A causal operator where order has no direction: two copies, one over the reversed sequence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from evodevo.errors import UsageError
from evodevo.operators.base import Operator, Output


class BothWays(Operator):
    """y = T(x) + reverse(T'(reverse(x))): every token depends on those before it and those after it.

    Args:
        forward_copy, backward_copy: two causal operators that share nothing.
        stream: both carry x along a residual stream; it counts once.
    """

    causal = False
    streamable = False

    def __init__(self, forward_copy: Operator, backward_copy: Operator, *, stream: bool = False) -> None:
        super().__init__()
        self.forward_copy = forward_copy
        self.backward_copy = backward_copy
        self.stream = stream

    def forward(
        self,
        x: Tensor,
        *,
        mask: Tensor | None = None,
        shared: Mapping[str, Any] | None = None,
        state: dict[str, Any] | None = None,
    ) -> Output:
        """See ``Operator``."""
        back = self.backward_copy(x.flip(1), mask=None if mask is None else mask.flip(1)).y
        y = self.forward_copy(x, mask=mask).y + back.flip(1)
        return Output(y - x if self.stream else y)

    def initial_state(self, batch: int, max_length: int, dtype: torch.dtype, device: torch.device) -> dict[str, Any]:
        """
        Raises:
            UsageError: always; the future is not there yet.
        """
        raise UsageError("an operator that runs both ways cannot go on token by token; build it with causal=True.")

"""The base of modules that nodes build.

Every one reads a whole sequence and answers at every position; the values at masked positions have no influence.

Legend: B samples, L positions, w channels that a node reads, w' channels of its answer.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from evodevo.errors import UsageError
from evodevo.operators.base import Operator, Output


class WholeSequence(Operator):
    """Reads all positions before it answers, so that it cannot go on token by token."""

    causal = False
    streamable = False

    def forward(
        self,
        x: Tensor,
        *,
        mask: Tensor | None = None,
        shared: Mapping[str, Any] | None = None,
        state: dict[str, Any] | None = None,
    ) -> Output:
        """(B, L, w) and a mask (B, L) -> (B, L, w'); see ``Operator``."""
        return Output(self._read(x, mask))

    @abstractmethod
    def _read(self, x: Tensor, mask: Tensor | None) -> Tensor: ...

    def initial_state(self, batch: int, max_length: int, dtype: torch.dtype, device: torch.device) -> dict[str, Any]:
        """
        Raises:
            UsageError: always.
        """
        raise UsageError("a module of a zoo reads whole sequences; it cannot go on token by token.")


def silenced(x: Tensor, mask: Tensor | None) -> Tensor:
    """(B, L, w) with 0 at masked positions, whatever was there."""
    return x if mask is None else x.masked_fill(~mask.unsqueeze(-1), 0)

"""A separable convolution over the sequence: taps per channel, GELU, a dense map (Chollet 2017, in one dimension).

Legend: B batch, T tokens, D width, K taps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from evodevo.errors import UsageError
from evodevo.operators.base import Operator, Output
from evodevo.operators.grouped import Grouped, GroupedAffine, Signature, Stack
from evodevo.operators.taps import causal_taps, taps_after


@dataclass(frozen=True)
class GroupedConvolution(Grouped):
    """Layers become channels of one depthwise convolution; the dense map is batched."""

    taps: Tensor  # (G, K, d)
    dense: GroupedAffine
    causal: bool

    @classmethod
    def of(cls, operators: Sequence[LocalConvolution], stack: Stack) -> Self:
        dense = GroupedAffine(stack([operator.weight for operator in operators]).mT, None)
        return cls(stack([operator.taps for operator in operators]), dense, operators[0].causal)

    @staticmethod
    def signature(operator: LocalConvolution) -> Signature:
        return ("convolution", *operator.taps.shape, operator.causal)

    def __call__(self, x: Tensor, mask: Tensor | None) -> Tensor:
        if mask is not None:
            x = x * mask.unsqueeze(-1)
        layers, batch, length, width = x.shape
        channels, taps = x.permute(1, 2, 0, 3).flatten(2), self.taps.transpose(0, 1).flatten(1)
        if self.causal:
            mixed = causal_taps(channels, taps)
        else:
            reach = taps.shape[0] // 2
            mixed = causal_taps(F.pad(channels, (0, 0, 0, reach)), taps)[:, reach:].contiguous()
        return self.dense(F.gelu(mixed.view(batch, length, layers, width).permute(2, 0, 1, 3)))


class LocalConvolution(Operator):
    """y = W gelu(taps * x): D K + D² parameters, against the D² K of a full convolution.

    Taps are centred, or reach into the past only where it is causal. Masked positions count as zeros.

    Args:
        width: D.
        kernel: K; odd.
        causal: whether later tokens are invisible.

    Raises:
        UsageError: an even number of taps.
    """

    grouped = GroupedConvolution

    def __init__(self, width: int, kernel: int, *, causal: bool) -> None:
        super().__init__()
        if kernel % 2 == 0:
            raise UsageError(f"a convolution of {kernel} taps has no centre; take {kernel - 1} or {kernel + 1}.")
        self.causal = causal
        self.streamable = causal
        self.taps = nn.Parameter(torch.randn(kernel, width) * kernel**-0.5)
        self.weight = nn.Parameter(torch.randn(width, width) * width**-0.5)
        self.taps.no_weight_decay = True  # type: ignore[attr-defined]

    def forward(
        self,
        x: Tensor,
        *,
        mask: Tensor | None = None,
        shared: Mapping[str, Any] | None = None,
        state: dict[str, Any] | None = None,
    ) -> Output:
        """See ``Operator``."""
        if mask is not None:
            x = x * mask.unsqueeze(-1)
        after: dict[str, Any] | None = None
        if state is not None:
            mixed, past = taps_after(x, state["past"], self.taps)
            after = {"past": past}
        elif self.causal:
            mixed = causal_taps(x, self.taps)
        else:
            reach = self.taps.shape[0] // 2
            mixed = causal_taps(F.pad(x, (0, 0, 0, reach)), self.taps)[:, reach:]
        return Output(F.linear(F.gelu(mixed), self.weight), {}, after)

    def initial_state(self, batch: int, max_length: int, dtype: torch.dtype, device: torch.device) -> dict[str, Any]:
        """The last K - 1 tokens.

        Raises:
            UsageError: it is bidirectional.
        """
        if not self.causal:
            raise UsageError("a centred convolution cannot go on token by token; build it with causal=True.")
        kernel, width = self.taps.shape
        return {"past": torch.zeros(batch, kernel - 1, width, dtype=dtype, device=device)}

"""The embedding of the iteration number in a layer (docs/spec/h_model.md#iteration-embedding)."""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor, nn

EMBEDDING_STD = 0.02


class IterationEmbedding(nn.Module):
    """A learned vector per iteration plus a sinusoidal one; beyond the trained T the last learned one is used again.

    Args:
        iterations: T in training.
        width: d.
        kind: ``message`` adds it to a layer's output (the paper's), ``input`` to its input, ``film`` scales and shifts
            its input, ``none``.
    """

    def __init__(self, iterations: int, width: int, kind: Literal["message", "input", "film", "none"]) -> None:
        super().__init__()
        self.kind = kind
        rows = max(iterations, 1)
        self.learned = nn.Parameter(torch.randn(rows, width) * EMBEDDING_STD) if kind != "none" else None
        self.scale = nn.Parameter(torch.zeros(rows, width)) if kind == "film" else None

    def on_input(self, x: Tensor, t: int) -> Tensor:
        """Input of the layers in iteration t: (..., d)."""
        if self.kind == "input":
            return x + self.vector(t).to(x.dtype)
        if self.scale is not None:
            scale = self.scale[min(t, len(self.scale) - 1)]
            return x * (1 + scale).to(x.dtype) + self.vector(t).to(x.dtype)
        return x

    def on_message(self, h: Tensor, t: int) -> Tensor:
        """Message of a layer's output h to other layers in iteration t."""
        return h + self.vector(t).to(h.dtype) if self.kind == "message" else h

    def vector(self, t: int) -> Tensor:
        """e_t (d,)."""
        assert self.learned is not None
        learned = self.learned[min(t, len(self.learned) - 1)]
        return learned + EMBEDDING_STD * sinusoid(t, learned)


def sinusoid(t: int, like: Tensor) -> Tensor:
    """The encoding of Vaswani et al. (2017) of a place t: (d,)."""
    width = like.shape[-1]
    half = torch.arange((width + 1) // 2, dtype=torch.float32, device=like.device)
    angles = t * torch.exp(-math.log(10_000.0) * 2 * half / width)
    return torch.stack([angles.sin(), angles.cos()], -1).flatten()[:width].to(like.dtype)

"""A model small enough to train in a test, and batches that it can learn."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from evodevo.randomness import generator

VOCABULARY = 11
LENGTH = 6
BATCH = 4


class Tiny(nn.Module):
    """An embedding, two layers with dropout, a marked gate, something unused and something frozen."""

    def __init__(self, dropout: float, width: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, width)
        self.layers = nn.ModuleList([nn.Linear(width, width) for _ in range(2)])
        self.norm = nn.LayerNorm(width)
        self.gate = nn.Parameter(torch.ones(2, width))
        self.gate.no_weight_decay = True  # type: ignore[attr-defined]
        self.dropout = nn.Dropout(dropout)
        self.unused = nn.Linear(2, 2)
        self.frozen = nn.Parameter(torch.ones(3), requires_grad=False)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embedding(tokens)
        for gate, layer in zip(self.gate, self.layers, strict=True):
            x = x + gate * self.dropout(torch.tanh(layer(x)))
        return functional.linear(self.norm(x), self.embedding.weight)

    def loss(self, batch: Tensor) -> Tensor:
        logits = self(batch[:, :-1])
        return functional.cross_entropy(logits.flatten(0, 1).float(), batch[:, 1:].flatten())


@pytest.fixture
def tiny() -> Callable[..., Tiny]:
    """``tiny(seed=0, dropout=0.1, width=8)``: a model whose weights depend on the seed alone."""

    def build(seed: int = 0, dropout: float = 0.1, width: int = 8) -> Tiny:
        with torch.random.fork_rng([]):
            torch.manual_seed(seed)
            return Tiny(dropout, width)

    return build


@pytest.fixture
def batch_at() -> Callable[[int], NDArray[np.int64]]:
    """Counting sequences, which a model can learn. Shape ``(4, 7)``."""

    def draw(step: int) -> NDArray[np.int64]:
        starts = generator(5, step).integers(0, VOCABULARY, size=(BATCH, 1))
        return (starts + np.arange(LENGTH + 1)) % VOCABULARY

    return draw


class Memory(dict[str, bytes]):
    """A blob store in a dictionary."""

    def put_bytes(self, data: bytes) -> str:
        import hashlib

        digest = hashlib.sha256(data).hexdigest()
        self[digest] = data
        return digest

    def get(self, digest: str) -> bytes:  # type: ignore[override]
        return self[digest]


@pytest.fixture
def memory() -> Memory:
    return Memory()

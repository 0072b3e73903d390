"""The cost of an architecture: one record, used everywhere."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Literal, NamedTuple

Mode = Literal["prefill", "decode", "train"]
Convention = Literal["star", "actual"]
STATE_BYTES = 4
"""Bytes of one number of a state (float32)."""


@dataclass(frozen=True)
class Cost:
    """Exact integers, computed from a genome without building the model.

    Attributes:
        parameters: trainable numbers without embedding and head; norm gains count in the convention ``actual`` only.
        embedding_parameters: token embedding and head (0 without a vocabulary).
        cache_bytes: bytes that generation keeps after ``length`` tokens. ``star``: 2 bytes a number and no convolution
            states, as in the paper's tables; ``actual``: every used byte of the live state.
        flops: FLOPs of one pass (prefill: all ``length`` tokens; decode: one token after ``length``; train: three times
            prefill). A multiply-add counts two.
        executed_flops: as ``flops``, with the work that this implementation does beyond the mathematics (the masked
            half of attention scores, the padding of the last chunk).
        bytes_read: weights and live state read by that pass, each use once: the better proxy of decoding time.
    """

    parameters: int
    embedding_parameters: int
    cache_bytes: int
    flops: int
    executed_flops: int
    bytes_read: int

    def to_json(self) -> dict[str, int]:
        """The fields by name."""
        return asdict(self)


class Work(NamedTuple):
    """FLOPs; a multiply-add counts two.

    Attributes:
        products: FLOPs of matrix products and convolutions over channels.
        other: convolutions by taps, FFTs, gates. Norms, softmax and activations are left out, as in ``backbone_cost``.
    """

    products: int = 0
    other: int = 0

    @property
    def total(self) -> int:
        """All of it."""
        return self.products + self.other

    def __add__(self, more: object) -> Work:
        if not isinstance(more, Work):
            return NotImplemented
        return Work(self.products + more.products, self.other + more.other)

    def times(self, count: int) -> Work:
        """The work of ``count`` calls."""
        return Work(count * self.products, count * self.other)


def total_work(parts: Iterable[Work]) -> Work:
    """The sum."""
    total = Work()
    for part in parts:
        total += part
    return total

"""The contract of operators: a sequence in, a sequence of the same shape out, and the features lent to others.

Legend: B batch, T tokens of this call, S tokens seen so far, D model width, H heads, P head size, N state size.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn


@dataclass
class Output:
    """The result of an operator's call.

    Attributes:
        y: (B, T, D).
        groups: role -> features, for LIVs that borrow them. Borrowers get the owner's tensors themselves.
        state: the state after this call, or None where none was given.
    """

    y: Tensor
    groups: dict[str, Any] = field(default_factory=dict)
    state: dict[str, Any] | None = None


class Operator(nn.Module, ABC):
    """A map from (B, T, D) to (B, T, D).

    Contract: one step is the case T = 1. With a ``state`` the call continues the sequence that the state has seen, in
    pieces of any length, and gives what one call over the whole sequence would give. A state is consumed by the call;
    ``Output.state`` takes its place. ``mask`` is (B, T), true at real tokens; the values at the others have no
    influence on real ones. ``shared`` holds the features of groups that this operator borrows.

    Attributes:
        causal: the output at t is blind to inputs after t.
        streamable: any split of a sequence gives the same outputs.
        memoryless: the output at t depends on the input at t alone.
        skips_padding: a call with a state may be left out where none of its tokens is real.
    """

    causal: bool = True
    streamable: bool = True
    memoryless: bool = False
    skips_padding: bool = False

    @abstractmethod
    def forward(
        self,
        x: Tensor,
        *,
        mask: Tensor | None = None,
        shared: Mapping[str, Any] | None = None,
        state: dict[str, Any] | None = None,
    ) -> Output: ...

    def at(self, x: Tensor, wanted: Tensor, *, mask: Tensor | None = None) -> Tensor:
        """Outputs at N positions alone, (N, D), in the order of ``wanted.nonzero()``.

        By default the others are computed too, unless the operator is memoryless.

        Args:
            x: (B, T, D).
            wanted: (B, T), true at positions whose output is wanted; all of them are real.
            mask: (B, T), true at real positions; None where all are.
        """
        if self.memoryless:
            y: Tensor = self(x[wanted].unsqueeze(0)).y
            return y[0]
        every: Tensor = self(x, mask=mask).y
        return every[wanted]

    @abstractmethod
    def initial_state(self, batch: int, max_length: int, dtype: torch.dtype, device: torch.device) -> dict[str, Any]:
        """The state before the first token; room for ``max_length`` tokens is set aside where a state grows."""


class Slab:
    """Entries per token in one block of memory: appending writes a slice and moves nothing.

    ``dim`` is the axis of tokens. Where gradients flow the entries are concatenated, since writing in place would
    destroy what the backward pass needs.
    """

    def __init__(
        self, shape: tuple[int, ...], dim: int, capacity: int, dtype: torch.dtype, device: torch.device
    ) -> None:
        self.dim = dim
        self.length = 0
        size = list(shape)
        size[dim] = capacity
        self.buffer = torch.empty(size, dtype=dtype, device=device)

    def append(self, new: Tensor) -> Tensor:
        """Add entries; returns all of them."""
        total = self.length + new.shape[self.dim]
        if torch.is_grad_enabled() and (new.requires_grad or self.buffer.requires_grad):
            self.buffer = torch.cat([self.view(), new], self.dim)
        else:
            if total > self.buffer.shape[self.dim]:
                self._grow(total)
            self.buffer.narrow(self.dim, self.length, total - self.length).copy_(new)
        self.length = total
        return self.view()

    def _grow(self, needed: int) -> None:
        size = list(self.buffer.shape)
        size[self.dim] = max(needed, 2 * size[self.dim], 16)
        grown = self.buffer.new_empty(size)
        grown.narrow(self.dim, 0, self.length).copy_(self.view())
        self.buffer = grown

    def view(self) -> Tensor:
        """The entries so far, without a copy."""
        return self.buffer.narrow(self.dim, 0, self.length)

    def keep_last(self, count: int) -> None:
        """Forget all but the last entries."""
        if self.length > count:
            self.buffer = self.view().narrow(self.dim, self.length - count, count).clone()
            self.length = count

    def select(self, rows: Tensor) -> Slab:
        """A copy with these rows of the batch, in this order."""
        other = Slab.__new__(Slab)
        other.dim, other.length, other.buffer = self.dim, self.length, self.buffer.index_select(0, rows)
        return other


def full_precision(device: torch.device) -> AbstractContextManager[None]:
    """A stretch of code that autocast leaves alone: scans and filters lose too much in half precision."""
    if torch.amp.is_autocast_available(device.type):
        return torch.autocast(device.type, enabled=False)
    return nullcontext()  # the meta device has no autocast


def is_free(length: object) -> bool:
    """Whether a length is a symbol of a graph that torch.export makes, and not a number."""
    return isinstance(length, torch.SymInt)


def used_bytes(state: Mapping[str, Any]) -> int:
    """Bytes that a state uses: of slabs, the written part. Plain counters are not cache."""
    total = 0
    for value in state.values():
        if isinstance(value, Mapping):
            total += used_bytes(value)
        elif isinstance(value, Tensor | Slab):
            tensor = value.view() if isinstance(value, Slab) else value
            total += tensor.numel() * tensor.element_size()
    return total


def select_rows(state: Mapping[str, Any], rows: Tensor) -> dict[str, Any]:
    """A copy of a state with these rows of the batch (beam search, pruning of finished rows)."""
    chosen: dict[str, Any] = {}
    for name, value in state.items():
        if isinstance(value, Mapping):
            chosen[name] = select_rows(value, rows)
        elif isinstance(value, Slab):
            chosen[name] = value.select(rows)
        else:
            chosen[name] = value.index_select(0, rows) if isinstance(value, Tensor) else value
    return chosen

"""A finished path inside a multipath model: it only answers, whatever its surroundings learn."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Self, cast

import torch
from torch import Tensor, nn

from evodevo.errors import UsageError
from evodevo.networks.base import Representation

Inputs = Tensor | Mapping[int, Tensor] | Mapping[str, Tensor]
"""Inputs of a batch: one tensor that all paths read, or one for each size or name."""


@dataclass(frozen=True)
class Routed:
    """An answer and how it came about.

    Attributes:
        logits: (B, C).
        weights: (B, P) of the paths inside, all 1 without a router; None for a path without others inside.
        ran: (B, P), true where a path was run for a sample; None likewise.
        by_router: whether a router gave the weights.
    """

    logits: Tensor
    weights: Tensor | None = None
    ran: Tensor | None = None
    by_router: bool = False


def route(model: nn.Module, inputs: Inputs) -> Routed:
    """The answer of a path's model: by its own ``route``, which returns ``Routed``, or its logits alone."""
    own = getattr(model, "route", None)
    answer: Routed = own(inputs) if callable(own) else Routed(model(inputs))
    return answer


class FrozenPath(nn.Module):
    """A module in evaluation, without gradients; its parameters are set to need none, for good.

    The module is held, not copied: one instance may serve any number of multipath models.

    Args:
        module: maps what it reads to logits (B, C), or headless to a representation (B, h).
        reads: key of this path's entry in the batch, for example its image size; None reads the whole batch.
        represent: whether to call ``module.represent`` instead of the module; the result is its pooled part.

    Raises:
        UsageError: a module that cannot represent.
    """

    def __init__(self, module: nn.Module, *, reads: int | str | None = None, represent: bool = False) -> None:
        super().__init__()
        self.module = module.requires_grad_(False)
        self.reads = reads
        self._represent = represent
        if represent and not callable(getattr(module, "represent", None)):
            raise UsageError(f"{type(module).__name__} has no represent(): it cannot support a multipath model.")
        self.train(False)

    @classmethod
    def of(cls, module: nn.Module) -> FrozenPath:
        """The module itself where it is frozen already."""
        return module if isinstance(module, FrozenPath) else cls(module)

    def train(self, mode: bool = True) -> Self:
        """Stays in evaluation: what is published behaves as it did when it was measured."""
        # Called twice for every batch, and a path has hundreds of modules: only those whose mode was changed elsewhere
        # are put back.
        return super().train(False) if self.training or self.module.training else self

    def entry(self, inputs: Inputs) -> Inputs:
        """The entry of a batch that this path reads.

        Raises:
            UsageError: the batch has no such entry.
        """
        if self.reads is None or isinstance(inputs, Tensor):
            return inputs
        entry = dict(inputs.items()).get(self.reads)
        if entry is None:
            raise UsageError(f"a path reads {self.reads!r}; the batch has {', '.join(map(repr, inputs)) or 'nothing'}.")
        return entry

    @torch.no_grad()
    def forward(self, inputs: Inputs, places: Tensor | None = None) -> Tensor:
        """(B, C) logits or (B, h) representation; of the samples at these places (n,) only, where they are given."""
        read = self.entry(inputs)
        if places is not None:
            read = _rows(read, places)
        ask = cast(Callable[[Inputs], object], self.module.represent if self._represent else self.module)
        answer = ask(read)
        value = answer.pooled if isinstance(answer, Representation) else answer
        if not isinstance(value, Tensor) or value.ndim != 2:
            raise UsageError("a path inside a multipath model answers one row of numbers for each sample.")
        return value.detach()


def _rows(read: Inputs, places: Tensor) -> Inputs:
    if isinstance(read, Tensor):
        return read.index_select(0, places.to(read.device))
    return {name: value.index_select(0, places.to(value.device)) for name, value in read.items()}  # type: ignore[return-value,unused-ignore]

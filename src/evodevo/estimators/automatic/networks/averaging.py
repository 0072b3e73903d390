"""An exponential moving average of a network's parameters, with which it is judged."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn


class AveragedWeights:
    """The average; the first steps count more, so that the start is soon forgotten.

    Args:
        network: Network, on the device on which it is trained.
        steps: About how many steps the average covers.
    """

    def __init__(self, network: nn.Module, steps: int) -> None:
        self._network = network
        self._most = 1 - 1 / max(2, steps)
        self._count = 0
        self._average = [parameter.detach().clone() for parameter in network.parameters()]

    @torch.no_grad()
    def update(self) -> None:
        """Take in the parameters after a step."""
        self._count += 1
        keep = min(self._most, self._count / (10 + self._count))
        torch._foreach_lerp_(self._average, [value.detach() for value in self._network.parameters()], 1 - keep)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """The network with the averaged parameters; afterwards it has its own again."""
        own = [parameter.detach().clone() for parameter in self._network.parameters()]
        self._set(self._average)
        try:
            yield
        finally:
            self._set(own)

    @torch.no_grad()
    def _set(self, values: list[Tensor]) -> None:
        for parameter, value in zip(self._network.parameters(), values, strict=True):
            parameter.copy_(value)

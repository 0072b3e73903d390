"""How the hidden layers of one iteration are run: one call per layer, and only for the samples that address it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn


class Runner(ABC):
    """Runs layers and counts.

    Attributes:
        calls: per layer, how often it was called.
        rows: per layer, on how many samples in all.
    """

    def __init__(self) -> None:
        self.calls: list[int] = []
        self.rows: list[int] = []

    def reset(self) -> None:
        """Count from zero again."""
        self.calls, self.rows = [], []

    def count(self, layer: int, layers: int, rows: int) -> None:
        """A call of one of the layers on some samples."""
        if len(self.calls) != layers:
            self.calls, self.rows = [0] * layers, [0] * layers
        self.calls[layer] += 1
        self.rows[layer] += rows

    @abstractmethod
    def run(
        self,
        layers: nn.ModuleList,
        x: Tensor,
        masks: Tensor | None,
        active: Tensor | None,
        states: list[dict[str, Any]] | None,
    ) -> Tensor:
        """What all layers say.

        Args:
            layers: H of them.
            x: (B, H, S, d), what each hears.
            masks: (B, H, S), or None.
            active: (B, H), true where the layer is wanted; None for everywhere. Elsewhere the answer is 0, and a layer
                that nobody wants is not called.
            states: per layer its state, brought up to date; all samples are run then.

        Returns:
            (B, H, S, d).
        """


class LoopRunner(Runner):
    """One layer after the other."""

    def run(
        self,
        layers: nn.ModuleList,
        x: Tensor,
        masks: Tensor | None,
        active: Tensor | None,
        states: list[dict[str, Any]] | None,
    ) -> Tensor:
        """See ``Runner``."""
        wanted = None if active is None or states is not None else active.T.tolist()  # the one look at the device
        said = []
        for place, layer in enumerate(layers):
            heard, mask = x[:, place], None if masks is None else masks[:, place]
            if wanted is None or all(wanted[place]):
                output = layer(heard, mask=mask, state=None if states is None else states[place])
                if states is not None:
                    states[place] = output.state
                said.append(output.y)
                self.count(place, len(layers), len(heard))
            elif not any(wanted[place]):
                said.append(torch.zeros_like(heard))
            else:
                rows = torch.tensor(_true(wanted[place]), device=x.device)
                output = layer(heard[rows], mask=None if mask is None else mask[rows])
                whole = torch.zeros_like(heard, dtype=output.y.dtype)
                said.append(whole.index_copy(0, rows, output.y))
                self.count(place, len(layers), len(rows))
        return torch.stack(said, 1)


def _true(flags: Iterable[bool]) -> list[int]:
    return [number for number, flag in enumerate(flags) if flag]

"""The module of an aggregation of the H-Model, and what several kinds compute with.

Legend: B samples, S positions, d width, K sources, N targets; P is 1, or S where connections are decided at each
position. Messages are (B, K, S, d), zero at positions that a source does not have; weights (B, P, K, N).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from torch import Tensor, nn

TINY = 1e-12


class Aggregation(nn.Module, ABC):
    """Combines the messages of all sources into the input of each target.

    Attributes:
        by_target: Names of the parameters with a row for each target, (N, ...), hidden layers first. When a layer is
            added to a network or taken out, rows follow; a new row is zero.
        by_source: Names of the parameters with a row for each hidden layer as a source, likewise.
    """

    by_target: ClassVar[tuple[str, ...]] = ()
    by_source: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def forward(self, messages: Tensor, weights: Tensor, masks: Tensor | None, *, of_input: bool) -> Tensor:
        """Inputs of the targets, (B, N, S, d).

        Args:
            messages: Messages, (B, K, S, d).
            weights: Connection weights to all targets or to the last ones, (B, P, K, N).
            masks: Real positions of each source, (B, K, S); None where every source has every position.
            of_input: Whether the sources are the inputs; else they are the hidden layers.
        """

    def begin(self, place: int, source: Tensor) -> None:
        """Set the rows of a new hidden layer, which are zero until then.

        Args:
            place: Index of the layer.
            source: Small random numbers, (d,).
        """


def weighted_sum(messages: Tensor, weights: Tensor) -> Tensor:
    """Sum over sources of weight times message: (B, N, S, d)."""
    batch, sources, length, width = messages.shape
    if weights.shape[1] == 1:
        flat = weights[:, 0].transpose(1, 2) @ messages.reshape(batch, sources, length * width)
        return flat.view(batch, -1, length, width)
    per_position = weights.transpose(-1, -2) @ messages.transpose(1, 2)
    return per_position.transpose(1, 2)


def at_positions(weights: Tensor, masks: Tensor | None) -> Tensor:
    """Weights where sources have positions of their own: (B, S, K, N), zero at positions that the source lacks."""
    if masks is None:
        return weights
    return weights * masks.transpose(1, 2).unsqueeze(-1).to(weights.dtype)

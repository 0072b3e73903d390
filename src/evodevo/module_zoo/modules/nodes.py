"""The nodes of a module that no operator of the library is yet: convolutions, gates, maps between widths.

Every one reads a whole sequence and answers at every position; what stands at masked positions has no influence.

Legend: B samples, L positions, w channels that a node reads, w' those that it answers with.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from evodevo.errors import UsageError
from evodevo.module_zoo.modules.cost import squeezed
from evodevo.module_zoo.modules.spec import ConvolutionNode, FeedForwardNode, GateNode, LSTMNode, SqueezeExciteNode
from evodevo.networks.routing.pools import masked_mean
from evodevo.operators.base import Operator, Output
from evodevo.operators.dense import affine
from evodevo.operators.feed_forward import ACTIVATIONS, FeedForward
from evodevo.operators.lstm import run_lstm, run_packed


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


class OuterSigmoid(WholeSequence):
    """sigmoid(W2 phi(W1 z + b1) + b2), as eq. 45 is printed."""

    def __init__(self, node: FeedForwardNode, width: int) -> None:
        super().__init__()
        self.inside = FeedForward(width, node.hidden, activation=node.activation)
        self.dropout = node.dropout

    def _read(self, x: Tensor, mask: Tensor | None) -> Tensor:
        return F.dropout(self.inside(x, mask=mask).y.sigmoid(), self.dropout, self.training)


class Convolution(WholeSequence):
    """A centred convolution, the activation, dropout. Masked positions are zeros before and after."""

    def __init__(self, node: ConvolutionNode, width: int) -> None:
        super().__init__()
        self.convolution = nn.Conv1d(width, node.width, node.kernel, padding=node.kernel // 2)
        self.activation: Callable[[Tensor], Tensor] | None = None
        if node.activation != "none":
            self.activation = ACTIVATIONS[node.activation]
        self.dropout = node.dropout

    def _read(self, x: Tensor, mask: Tensor | None) -> Tensor:
        y: Tensor = self.convolution(_silenced(x, mask).transpose(1, 2)).transpose(1, 2)
        if self.activation is not None:
            y = self.activation(y)
        return _silenced(F.dropout(y, self.dropout, self.training), mask)


class Recurrent(WholeSequence):
    """An LSTM over real positions, one way or both, and a linear map of its states to w (eq. 47)."""

    def __init__(self, node: LSTMNode, width: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(
            width,
            node.hidden,
            node.layers,
            batch_first=True,
            bidirectional=node.both_ways,
            dropout=node.dropout if node.layers > 1 else 0.0,
        )
        self.out = nn.Linear(node.hidden * (2 if node.both_ways else 1), width)
        self.dropout = node.dropout

    def _read(self, x: Tensor, mask: Tensor | None) -> Tensor:
        y, _ = run_lstm(self.lstm, x) if mask is None else run_packed(self.lstm, x, mask)
        return F.dropout(affine(y, self.out), self.dropout, self.training)


class SqueezeExcite(WholeSequence):
    """z sigmoid(W2 phi(W1 mean z)): every channel of a sample by one number (eq. 49)."""

    def __init__(self, node: SqueezeExciteNode, width: int) -> None:
        super().__init__()
        self.squeeze = nn.Linear(width, squeezed(node, width))
        self.excite = nn.Linear(squeezed(node, width), width)
        self.activation = ACTIVATIONS[node.activation]

    def _read(self, x: Tensor, mask: Tensor | None) -> Tensor:
        weights: Tensor = self.excite(self.activation(self.squeeze(masked_mean(_silenced(x, mask), mask)))).sigmoid()
        return x * weights.unsqueeze(1)


class Norm(WholeSequence):
    """Layer norm over channels."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)

    def _read(self, x: Tensor, mask: Tensor | None) -> Tensor:
        y: Tensor = self.norm(x)
        return y


class Projection(WholeSequence):
    """A linear map to w' channels."""

    def __init__(self, width: int, outer: int) -> None:
        super().__init__()
        self.map = nn.Linear(width, outer)

    def _read(self, x: Tensor, mask: Tensor | None) -> Tensor:
        return affine(x, self.map)


class Gate(WholeSequence):
    """Every channel times a learned number."""

    def __init__(self, node: GateNode, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.full((width,), node.start))
        self.weight.no_weight_decay = True  # type: ignore[attr-defined]

    def _read(self, x: Tensor, mask: Tensor | None) -> Tensor:
        return x * self.weight


def _silenced(x: Tensor, mask: Tensor | None) -> Tensor:
    """0 at masked positions, whatever stood there."""
    return x if mask is None else x.masked_fill(~mask.unsqueeze(-1), 0)

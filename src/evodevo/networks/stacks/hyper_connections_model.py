"""A stack with hyper-connections (Zhu et al. 2024, "Hyper-Connections").

The paper sums the streams at the end; here they are averaged, so that what the output layers read is of the size that
the plain stack gives. A layer with residual connections inside counts as one layer of the paper: its output is what it
adds to its input.

Legend: B samples, S positions, d width, n streams; H (n, d) the streams of a position, T the layer. In the paper's
matrix A the first column is A_m, the others A_r.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from evodevo.networks.stacks.spec import HyperConnectionsStructure
from evodevo.networks.stacks.stack_model import LayerStack
from evodevo.networks.writer import States
from evodevo.operators.base import Operator
from evodevo.operators.liv import NORM_EPSILON
from evodevo.tasks.base import OutputSpec
from evodevo.tasks.inputs import InputSpec

SCALE = 0.01
"""Scale at which dynamic weights begin."""


class HyperConnection(nn.Module):
    """The connections around one layer.

    Args:
        structure: Number of streams, width, and whether weights are dynamic.
        place: Number of the layer; it begins by reading the stream ``place`` mod n.

    Attributes:
        inward: A_m, weights with which the layer reads the streams, (n,).
        across: A_r, weights from stream to stream, (n, n).
        outward: B, weights with which streams take up the layer's output, (n,).
        dynamic: The map d -> (B, A_m, A_r) of dynamic weights, (n + 2, d), 0 at the start; None of static ones.
        scales: Scales of dynamic weights, of B and of A, (2,); None of static ones.
    """

    def __init__(self, structure: HyperConnectionsStructure, place: int) -> None:
        super().__init__()
        count, width = structure.streams, structure.width
        self.inward = nn.Parameter(F.one_hot(torch.tensor(place % count), count).to(torch.get_default_dtype()))
        self.across = nn.Parameter(torch.eye(count))
        self.outward = nn.Parameter(torch.ones(count))
        self.dynamic = nn.Parameter(torch.zeros(count + 2, width)) if structure.dynamic else None
        self.scales = nn.Parameter(torch.full((2,), SCALE)) if structure.dynamic else None

    def forward(self, streams: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The layer's input, the streams before they take up its output, and the weights with which they do.

        Args:
            streams: (B, S, n, d).

        Returns:
            (B, S, d), (B, S, n, d), and (n,) or (B, S, n).
        """
        weights = torch.cat([self.inward.unsqueeze(-1), self.across], -1)  # A, (n, n + 1)
        outward: Tensor = self.outward
        if self.dynamic is not None and self.scales is not None:
            seen = F.rms_norm(streams.to(self.dynamic.dtype), streams.shape[-1:], eps=NORM_EPSILON)
            said = torch.tanh(F.linear(seen, self.dynamic))  # (B, S, n, n + 2)
            weights = weights + self.scales[1] * said[..., 1:]
            outward = outward + self.scales[0] * said[..., 0]
        mixed = weights.mT.to(streams.dtype) @ streams  # (B, S, n + 1, d)
        return mixed[..., 0, :], mixed[..., 1:, :], outward


class HyperStack(LayerStack):
    """A stack with hyper-connections; arguments and errors as in ``LayerStack``.

    Attributes:
        connections: Those of each layer.
    """

    structure: HyperConnectionsStructure

    def __init__(
        self, structure: HyperConnectionsStructure, inputs: tuple[InputSpec, ...], outputs: tuple[OutputSpec, ...]
    ) -> None:
        super().__init__(structure, inputs, outputs)
        self.connections = nn.ModuleList(HyperConnection(structure, place) for place in range(len(self.layers)))

    def update(self, x: Tensor, mask: Tensor | None) -> tuple[Tensor, Mapping[str, Tensor]]:
        """See ``SingleStream``."""
        return self._passed(x, mask, None), {}

    def stream(self, x: Tensor, stream: list[States], number: int) -> Tensor:
        """See ``LayeredNetwork``."""
        return self._passed(x, None, stream)

    def _passed(self, x: Tensor, mask: Tensor | None, kept: list[States] | None) -> Tensor:
        streams = x.unsqueeze(2).expand(-1, -1, self.structure.streams, -1)
        layers = cast("list[Operator]", list(self.layers))
        for t in range(self.structure.repeats):
            streams = self.embedding.on_input(streams, t)
            for place, (layer, connection) in enumerate(zip(layers, self.connections, strict=True)):
                read, streams, outward = connection(streams)
                output = layer(read, mask=mask, state=None if kept is None else kept[t][place])
                if kept is not None:
                    assert output.state is not None
                    kept[t][place] = output.state
                made = (output.y - read).unsqueeze(2)
                streams = streams + outward.unsqueeze(-1).to(made.dtype) * made
        return streams.mean(2)

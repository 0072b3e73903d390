"""Given routes at work: the layer that each sample runs in each iteration.

Legend: B samples, T iterations.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from evodevo.errors import UsageError
from evodevo.h_model.routes.spec import RoutesStructure


class RouteReader(nn.Module):
    """Samples -> the layers of their routes, by the table of a structure."""

    layers: Tensor

    def __init__(self, routes: RoutesStructure) -> None:
        super().__init__()
        self.routes = routes
        # Not stored: it follows from the structure, which a checkpoint holds.
        self.register_buffer("layers", torch.tensor(routes.layers), persistent=False)

    def forward(self, batch: Mapping[str, Tensor]) -> Tensor:
        """Places of hidden layers, (B, T).

        Raises:
            UsageError: the batch lacks the input.
        """
        name, symbols = self.routes.input, len(self.routes.layers)
        if name not in batch:
            raise UsageError(f"routes are read from the input {name!r}, which is missing; give it.")
        codes = [batch[name][:, slot : slot + symbols].argmax(-1) for slot in self.routes.slots]
        return self.layers[torch.stack(codes, 1)]

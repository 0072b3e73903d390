"""An H-Model as a layer of another one: one latent input, one output, no heads (docs/spec/h_model.md#nested-models).

Legend: B samples, S positions, d width, H hidden layers, T iterations.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import torch
from torch import Tensor

from evodevo.errors import UsageError
from evodevo.h_model.core import Streams
from evodevo.h_model.cores import build_core
from evodevo.h_model.spec import HModelStructure
from evodevo.operators.base import Operator, Output


class NestedHModel(Operator):
    """The sum that the output of the inner H-Model has received after its T iterations.

    The input sends messages to the output directly too, by a router: that is the residual path of this layer.

    Args:
        structure: structure of the inner model; its width is that of the messages.
    """

    def __init__(self, structure: HModelStructure) -> None:
        super().__init__()
        self.structure = structure
        self.core = build_core(structure, 1, 1)
        self.causal = structure.causal
        self.streamable = structure.causal and all(layer.streamable for layer in self._layers())

    def _layers(self) -> list[Operator]:
        return cast("list[Operator]", list(self.core.layers))

    def forward(
        self,
        x: Tensor,
        *,
        mask: Tensor | None = None,
        shared: Mapping[str, Any] | None = None,
        state: dict[str, Any] | None = None,
    ) -> Output:
        """See ``Operator``."""
        values, masks = x.unsqueeze(1), None if mask is None else mask.unsqueeze(1)
        total = self.structure.iterations
        if state is None:
            return Output(self.core.answer(self.core.run(values, masks, iterations=total))[:, 0])
        streams = self._streams(state)
        flow = self.core.begin(values, masks, total, streams=streams)
        for _ in range(total):
            flow = self.core.iterate(flow, streams=streams)
        return Output(self.core.answer(flow)[:, 0], {}, self._state(streams))

    def initial_state(self, batch: int, max_length: int, dtype: torch.dtype, device: torch.device) -> dict[str, Any]:
        """The states of every layer in every iteration.

        Raises:
            UsageError: it is not causal.
        """
        if not self.streamable:
            raise UsageError("an H-Model that looks both ways cannot go on token by token; set causal = true.")
        layers = self._layers()
        return self._state(
            Streams(
                [
                    [layer.initial_state(batch, max_length, dtype, device) for layer in layers]
                    for _ in range(self.structure.iterations)
                ]
            )
        )

    def _streams(self, state: dict[str, Any]) -> Streams:
        count = len(self.core.layers)
        layers = [[state["layers"][f"{t}.{j}"] for j in range(count)] for t in range(self.structure.iterations)]
        sums = {}
        for name, (total, real) in ((name, pair.values()) for name, pair in state["sums"].items()):
            moment, source = name.split(".")
            sums[(int(moment), int(source))] = (total, real)
        return Streams(layers, sums)

    @staticmethod
    def _state(streams: Streams) -> dict[str, Any]:
        """Streams as nested tables of tensors, so that rows of them can be chosen as of any state."""
        return {
            "layers": {f"{t}.{j}": state for t, row in enumerate(streams.layers) for j, state in enumerate(row)},
            "sums": {
                f"{moment}.{source}": {"total": total, "real": real}
                for (moment, source), (total, real) in streams.sums.items()
            },
        }

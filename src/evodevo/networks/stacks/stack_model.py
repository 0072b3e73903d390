"""Opponents of the H-Model: the same layers one after the other, with the same inputs and outputs around them."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn

from evodevo.errors import UsageError
from evodevo.networks.base import Batch, Representation
from evodevo.networks.inputs import Inputs
from evodevo.networks.iteration_embedding import IterationEmbedding
from evodevo.networks.outputs import Outputs
from evodevo.networks.routing.pools import masked_mean
from evodevo.networks.stacks.spec import StackStructure
from evodevo.networks.writer import LayeredNetwork, States
from evodevo.operators.base import Operator
from evodevo.operators.layers.build import build_layer
from evodevo.tasks.base import OutputSpec
from evodevo.tasks.inputs import InputSpec


class LayerStack(LayeredNetwork):
    """A transformer, a weight-tied Universal Transformer, or any other stack of layers.

    Args:
        structure: the layers.
        inputs, outputs: inputs and outputs of the task.

    Raises:
        UsageError: tokens are to be predicted by a stack that is not causal.
    """

    def __init__(
        self, structure: StackStructure, inputs: tuple[InputSpec, ...], outputs: tuple[OutputSpec, ...]
    ) -> None:
        super().__init__(inputs, outputs)
        if not structure.causal and any(spec.kind == "tokens" for spec in outputs):
            raise UsageError(
                "predicting the next token needs a causal model: set causal = true, or it would read its answer."
            )
        self.structure = structure
        width = structure.width
        self.inputs = Inputs(
            inputs,
            width,
            structure.input_blocks,
            canvas=structure.canvas,
            slots=structure.slots,
            causal=structure.causal,
            missing=structure.missing,
        )
        self.layers = nn.ModuleList(
            build_layer(spec, width, causal=structure.causal, residual=structure.residual) for spec in structure.layers
        )
        kind = "input" if structure.iteration_embedding else "none"
        self.embedding = IterationEmbedding(structure.repeats, width, kind)  # type: ignore[arg-type]
        self.outputs = Outputs(outputs, width, structure.output_blocks, causal=structure.causal)

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """See ``Network``."""
        y, mask, places = self._hidden(batch)
        count = len(self.output_specs)
        ys = y.unsqueeze(1).expand(-1, count, -1, -1)
        masks = None if mask is None else mask.unsqueeze(1).expand(-1, count, -1)
        answers: dict[str, Tensor] = self.outputs(ys, masks, places)
        return answers

    def unrepresented(self) -> tuple[str, ...]:
        """See ``Network``."""
        return ("outputs",)

    def represent(self, batch: Batch) -> Representation:
        """See ``Network``."""
        y, mask, _ = self._hidden(batch)
        return Representation(y, mask, masked_mean(y, mask))

    def hidden_layers(self) -> list[Operator]:
        """See ``LayeredNetwork``."""
        return cast("list[Operator]", list(self.layers))

    def rounds(self) -> int:
        """See ``LayeredNetwork``."""
        return int(self.structure.repeats)

    def before_output(self, batch: Batch, number: int) -> tuple[Tensor, Tensor | None]:
        """See ``LayeredNetwork``."""
        y, mask, _ = self._hidden(batch)
        return y, mask

    def stream(self, x: Tensor, stream: list[States], number: int) -> Tensor:
        """See ``LayeredNetwork``."""
        for t, states in enumerate(stream):
            x = self.embedding.on_input(x, t)
            for place, layer in enumerate(self.layers):
                output = layer(x, state=states[place])
                x, states[place] = output.y, output.state
        return x

    def _hidden(self, batch: Batch) -> tuple[Tensor, Tensor | None, dict[str, tuple[int, int]]]:
        messages = self.inputs(batch)
        mask = None if messages.masks is None else messages.masks.any(1)
        x = messages.values.sum(1)
        if messages.masks is not None:
            x = x / messages.masks.sum(1).clamp(min=1).unsqueeze(-1).to(x.dtype)
        elif messages.values.shape[1] > 1:
            x = x / messages.values.shape[1]
        for t in range(self.structure.repeats):
            x = self.embedding.on_input(x, t)
            for layer in self.layers:
                x = layer(x, mask=mask).y
        if mask is not None:
            x = torch.where(mask.unsqueeze(-1), x, torch.zeros_like(x))
        return x, mask, dict(messages.places)

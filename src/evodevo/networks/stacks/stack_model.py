"""Opponents of the H-Model: the same layers one after the other, with the same inputs and outputs around them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, cast

from torch import Tensor, nn

from evodevo.networks.inputs import Inputs
from evodevo.networks.iteration_embedding import IterationEmbedding
from evodevo.networks.outputs import Outputs
from evodevo.networks.stacks.spec import StackStructure
from evodevo.networks.stream import SingleStream, check_order
from evodevo.networks.writer import LayeredNetwork, States
from evodevo.operators.base import Operator
from evodevo.operators.layers.build import build_layer
from evodevo.tasks.base import OutputSpec
from evodevo.tasks.inputs import InputSpec


class LayerStack(SingleStream, LayeredNetwork):
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
        check_order(outputs, causal=structure.causal)
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
        kind: Literal["input", "none"] = "input" if structure.iteration_embedding else "none"
        self.embedding = IterationEmbedding(structure.repeats, width, kind)
        self.outputs = Outputs(outputs, width, structure.output_blocks, causal=structure.causal)

    def update(self, x: Tensor, mask: Tensor | None) -> tuple[Tensor, Mapping[str, Tensor]]:
        """See ``SingleStream``."""
        for t in range(self.structure.repeats):
            x = self.embedding.on_input(x, t)
            for layer in self.layers:
                x = layer(x, mask=mask).y
        return x, {}

    def hidden_layers(self) -> list[Operator]:
        """See ``LayeredNetwork``."""
        return cast("list[Operator]", list(self.layers))

    def rounds(self) -> int:
        """See ``LayeredNetwork``."""
        return int(self.structure.repeats)

    def stream(self, x: Tensor, stream: list[States], number: int) -> Tensor:
        """See ``LayeredNetwork``."""
        for t, states in enumerate(stream):
            x = self.embedding.on_input(x, t)
            for place, layer in enumerate(self.layers):
                output = layer(x, state=states[place])
                x, states[place] = output.y, output.state
        return x

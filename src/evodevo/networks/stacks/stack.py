"""Layers one after the other, the plain alternative to a network that routes: what it is and what it costs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, Self

from evodevo.networks.canvas import InputSizes, OutputSizes
from evodevo.networks.cost import WEIGHT_BYTES, check_pass
from evodevo.networks.draw import ends_words, layers_words
from evodevo.networks.ends_cost import Ends
from evodevo.networks.spec import NetworkSpec
from evodevo.networks.stacks.spec import StackStructure
from evodevo.operators.cost import Cost, Mode, total_work
from evodevo.operators.layers.cost import layer_parameters, layer_state_bytes, layer_work

if TYPE_CHECKING:
    from evodevo.networks.stacks.stack_model import LayerStack
    from evodevo.operators.layers.base import Layer
    from evodevo.tasks.base import OutputSpec
    from evodevo.tasks.inputs import InputSpec


class StackNetwork(NetworkSpec):
    """A stack."""

    kind: Literal["stack"] = "stack"
    structure: StackStructure = StackStructure()

    def cost(
        self,
        *,
        inputs: Sequence[InputSizes] = (),
        outputs: Sequence[OutputSizes] = (),
        length: int | None = None,
        batch: int = 1,
        mode: Mode = "prefill",
    ) -> Cost:
        """See ``NetworkSpec``."""
        return stack_cost(self.structure, inputs=inputs, outputs=outputs, length=length, batch=batch, mode=mode)

    @property
    def layers(self) -> tuple[Layer, ...]:
        """See ``NetworkSpec``."""
        return self.structure.layers

    def with_layers(self, layers: tuple[Layer, ...]) -> Self:
        """See ``NetworkSpec``."""
        return self.model_copy(update={"structure": self.structure.model_copy(update={"layers": layers})})

    def describe(self) -> list[str]:
        """See ``NetworkSpec``."""
        return [stack_words(self.structure)]

    def build(self, inputs: tuple[InputSpec, ...], outputs: tuple[OutputSpec, ...]) -> LayerStack:
        """See ``NetworkSpec`` and ``stack_model.LayerStack``."""
        from evodevo.networks.stacks.stack_model import LayerStack

        return LayerStack(self.structure, inputs, outputs)


def stack_words(stack: StackStructure) -> str:
    """A stack in one sentence."""
    repeats = f", {stack.repeats} times over with the same weights" if stack.repeats > 1 else ""
    made = f"{layers_words(stack.layers)}{repeats}; {ends_words(stack.input_blocks, stack.output_blocks)}."
    return f"Layers of width {stack.width}, one after the other: {made}"


def stack_cost(
    structure: StackStructure,
    *,
    inputs: Sequence[InputSizes] = (),
    outputs: Sequence[OutputSizes] = (),
    length: int | None = None,
    batch: int = 1,
    mode: Mode = "prefill",
) -> Cost:
    """Cost of one pass of a stack; arguments and errors as in ``NetworkSpec.cost``."""
    check_pass(batch, mode)
    width, causal, repeats = structure.width, structure.causal, structure.repeats
    ends = stack_ends(structure, inputs, outputs)
    positions = ends.length(length)
    layers = sum(layer_parameters(layer, width, causal) for layer in structure.layers)
    around = ends.input_parameters() + ends.output_parameters()
    parameters = around + layers + (repeats * width if structure.iteration_embedding else 0)
    flops, executed = (
        (
            ends.input_work(visible=visible)
            + total_work(
                layer_work(layer, width, positions, causal=causal, visible=visible) for layer in structure.layers
            ).times(repeats)
            + ends.output_work(positions, visible=visible)
        ).total
        for visible in (True, False)
    )
    cache = 0
    if causal:
        cache = repeats * sum(layer_state_bytes(layer, width, positions) for layer in structure.layers)
        cache = batch * (cache + ends.state_bytes(positions))
    passes = batch * (3 if mode == "train" else 1)
    read = parameters + (repeats - 1) * layers + ends.head_parameters()
    return Cost(
        parameters=parameters,
        embedding_parameters=ends.embedding_parameters() + ends.head_parameters(),
        cache_bytes=cache,
        flops=passes * flops,
        executed_flops=passes * executed,
        bytes_read=WEIGHT_BYTES * read + cache,
    )


def stack_ends(structure: StackStructure, inputs: Sequence[InputSizes], outputs: Sequence[OutputSizes]) -> Ends:
    """What is around the layers of a stack."""
    return Ends(
        inputs,
        outputs,
        structure.width,
        structure.input_blocks,
        structure.output_blocks,
        structure.canvas,
        structure.slots,
        structure.causal,
        structure.missing,
    )

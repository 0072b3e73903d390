"""A block in a loop of as many passes as a router says: what it is and what it costs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, ClassVar, Literal, Self

from evodevo.networks.canvas import InputSizes, OutputSizes
from evodevo.networks.cost import WEIGHT_BYTES, check_pass
from evodevo.networks.draw import ends_words, layers_words
from evodevo.networks.ends_cost import Ends
from evodevo.networks.spec import NetworkSpec
from evodevo.networks.stacks.spec import RecursionStructure
from evodevo.operators.cost import Cost, Mode, Work, total_work
from evodevo.operators.layers.cost import layer_parameters, layer_work

if TYPE_CHECKING:
    from evodevo.networks.stacks.recursion_model import Recursion
    from evodevo.operators.layers.base import Layer
    from evodevo.tasks.base import OutputSpec
    from evodevo.tasks.inputs import InputSpec


def recursion_cost(
    structure: RecursionStructure,
    *,
    inputs: Sequence[InputSizes] = (),
    outputs: Sequence[OutputSizes] = (),
    length: int | None = None,
    batch: int = 1,
    mode: Mode = "prefill",
) -> Cost:
    """Cost of one pass in which every sample passes the block ``most`` times, which is the most that it can do.

    Arguments and errors as in ``NetworkSpec.cost``.
    """
    check_pass(batch, mode)
    width, most = structure.width, structure.most
    ends = Ends(
        inputs,
        outputs,
        width,
        structure.input_blocks,
        structure.output_blocks,
        structure.canvas,
        structure.slots,
        False,
        structure.missing,
    )
    positions = ends.length(length)
    block = sum(layer_parameters(layer, width, causal=False) for layer in structure.layers)
    parameters = ends.input_parameters() + ends.output_parameters() + block + (width + 1) * most
    parameters += most * width if structure.iteration_embedding else 0
    once = total_work(layer_work(layer, width, positions, causal=False) for layer in structure.layers)
    work = ends.input_work(visible=False) + once.times(most) + Work(2 * width * most)
    work += ends.output_work(positions, visible=False)
    flops = batch * work.total * (3 if mode == "train" else 1)
    return Cost(
        parameters=parameters,
        embedding_parameters=ends.embedding_parameters() + ends.head_parameters(),
        cache_bytes=0,
        flops=flops,
        executed_flops=flops,
        bytes_read=WEIGHT_BYTES * (parameters + (most - 1) * block + ends.head_parameters()),
    )


class RecursionNetwork(NetworkSpec):
    """A block in a loop, with a router that decides on the number of passes."""

    kind: Literal["recursion"] = "recursion"
    structure: RecursionStructure = RecursionStructure()
    structure_cost: ClassVar[Callable[..., Cost]] = staticmethod(recursion_cost)

    @property
    def layers(self) -> tuple[Layer, ...]:
        """See ``NetworkSpec``."""
        return self.structure.layers

    def with_layers(self, layers: tuple[Layer, ...]) -> Self:
        """See ``NetworkSpec``."""
        return self.model_copy(update={"structure": self.structure.model_copy(update={"layers": layers})})

    def describe(self) -> list[str]:
        """See ``NetworkSpec``."""
        structure = self.structure
        block = f"A block of width {structure.width}, {layers_words(structure.layers)}"
        ends = ends_words(structure.input_blocks, structure.output_blocks)
        return [f"{block}, which a sample passes 1 to {structure.most} times as its router says; {ends}."]

    def build(self, inputs: tuple[InputSpec, ...], outputs: tuple[OutputSpec, ...]) -> Recursion:
        """See ``NetworkSpec`` and ``recursion_model.Recursion``."""
        from evodevo.networks.stacks.recursion_model import Recursion

        return Recursion(self.structure, inputs, outputs)

"""Stacks with hyper-connections: what they are and what they cost.

Legend: S positions, d width, n streams.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Literal, Self

from evodevo.networks.canvas import InputSizes, OutputSizes
from evodevo.networks.cost import WEIGHT_BYTES
from evodevo.networks.ends_cost import Ends
from evodevo.networks.spec import NetworkSpec
from evodevo.networks.stacks.spec import HyperConnectionsStructure
from evodevo.networks.stacks.stack import stack_cost, stack_ends, stack_words
from evodevo.operators.cost import Cost, Mode

if TYPE_CHECKING:
    from evodevo.networks.stacks.hyper_connections_model import HyperStack
    from evodevo.operators.layers.base import Layer
    from evodevo.tasks.base import OutputSpec
    from evodevo.tasks.inputs import InputSpec


def connection_parameters(structure: HyperConnectionsStructure) -> int:
    """Of one layer: n weights into it, n from it, n^2 between streams; dynamic ones a map d -> n + 2 and two scales."""
    streams = structure.streams
    return 2 * streams + streams**2 + ((streams + 2) * structure.width + 2 if structure.dynamic else 0)


def connection_work(structure: HyperConnectionsStructure, length: int) -> int:
    """FLOPs in matrix products of one layer's connections: a map n -> n + 1, and that of dynamic weights."""
    streams, width = structure.streams, structure.width
    own = 2 * streams * width * (streams + 2) if structure.dynamic else 0
    return length * (2 * streams * (streams + 1) * width + own)


def hyper_connections_cost(
    structure: HyperConnectionsStructure,
    *,
    inputs: Sequence[InputSizes] = (),
    outputs: Sequence[OutputSizes] = (),
    length: int | None = None,
    batch: int = 1,
    mode: Mode = "prefill",
) -> Cost:
    """Cost of one pass: that of the stack, and of its connections; arguments and errors as in ``NetworkSpec.cost``."""
    plain = stack_cost(structure, inputs=inputs, outputs=outputs, length=length, batch=batch, mode=mode)
    ends: Ends = stack_ends(structure, inputs, outputs)
    runs = len(structure.layers) * structure.repeats
    parameters = len(structure.layers) * connection_parameters(structure)
    work = batch * (3 if mode == "train" else 1) * runs * connection_work(structure, ends.length(length))
    return replace(
        plain,
        parameters=plain.parameters + parameters,
        flops=plain.flops + work,
        executed_flops=plain.executed_flops + work,
        bytes_read=plain.bytes_read + WEIGHT_BYTES * structure.repeats * parameters,
    )


class HyperConnectionsNetwork(NetworkSpec):
    """A stack with hyper-connections."""

    kind: Literal["hyper_connections"] = "hyper_connections"
    structure: HyperConnectionsStructure = HyperConnectionsStructure()
    structure_cost: ClassVar[Callable[..., Cost]] = staticmethod(hyper_connections_cost)

    @property
    def layers(self) -> tuple[Layer, ...]:
        """See ``NetworkSpec``."""
        return self.structure.layers

    def with_layers(self, layers: tuple[Layer, ...]) -> Self:
        """See ``NetworkSpec``."""
        return self.model_copy(update={"structure": self.structure.model_copy(update={"layers": layers})})

    def describe(self) -> list[str]:
        """See ``NetworkSpec``."""
        kind = "dynamic" if self.structure.dynamic else "static"
        return [stack_words(self.structure), f"{self.structure.streams} streams with {kind} hyper-connections."]

    def build(self, inputs: tuple[InputSpec, ...], outputs: tuple[OutputSpec, ...]) -> HyperStack:
        """See ``NetworkSpec`` and ``hyper_connections_model.HyperStack``."""
        from evodevo.networks.stacks.hyper_connections_model import HyperStack

        return HyperStack(self.structure, inputs, outputs)

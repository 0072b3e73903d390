"""What any network of separate samples costs: an H-Model or a stack, over the inputs and outputs of a task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple
from typing import Any

from evodevo.h_model.cost import WEIGHT_BYTES, check_pass, h_model_cost
from evodevo.networks.canvas import InputSizes, OutputSizes
from evodevo.networks.ends_cost import Ends
from evodevo.networks.spec import EnsembleNetwork, HModelNetwork, NetworkSpec, StackNetwork, StackStructure
from evodevo.operators.cost import Cost, Mode, total_work
from evodevo.operators.layers.cost import layer_parameters, layer_state_bytes, layer_work
from evodevo.registry import Registry, table

COSTS: Registry[Any] = table("cost of a network", "evodevo.network_costs")
"""Kind of a ``NetworkSpec`` -> ``cost(structure, *, inputs, outputs, length, batch, mode) -> Cost``."""


def network_cost(
    network: NetworkSpec,
    *,
    inputs: Sequence[InputSizes] = (),
    outputs: Sequence[OutputSizes] = (),
    length: int | None = None,
    batch: int = 1,
    mode: Mode = "prefill",
) -> Cost:
    """Cost of one pass of a network; see ``h_model_cost``."""
    if isinstance(network, HModelNetwork):
        return h_model_cost(network.structure, inputs=inputs, outputs=outputs, length=length, batch=batch, mode=mode)
    if isinstance(network, EnsembleNetwork):
        costs = [
            stack_cost(member, inputs=inputs, outputs=outputs, length=length, batch=batch, mode=mode)
            for member in network.structure.members
        ]
        return Cost(*(sum(values) for values in zip(*map(astuple, costs), strict=True)))
    if not isinstance(network, StackNetwork):
        cost: Cost = COSTS.get(network.kind)(
            network.structure, inputs=inputs, outputs=outputs, length=length, batch=batch, mode=mode
        )
        return cost
    return stack_cost(network.structure, inputs=inputs, outputs=outputs, length=length, batch=batch, mode=mode)


def stack_cost(
    structure: StackStructure,
    *,
    inputs: Sequence[InputSizes] = (),
    outputs: Sequence[OutputSizes] = (),
    length: int | None = None,
    batch: int = 1,
    mode: Mode = "prefill",
) -> Cost:
    """Cost of one pass of a stack; arguments, numbers and errors as in ``h_model_cost``."""
    check_pass(batch, mode)
    width, causal, repeats = structure.width, structure.causal, structure.repeats
    ends = Ends(
        inputs,
        outputs,
        width,
        structure.input_blocks,
        structure.output_blocks,
        structure.canvas,
        structure.slots,
        causal,
        structure.missing,
    )
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

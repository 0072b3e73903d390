"""The cost of an H-Model, in parts that add up: inputs, hidden layers, routers, aggregation, outputs.

A pass runs I + H T + O blocks (docs/spec/h_model.md#fair-comparison); routers and aggregation come on top.

Legend: S positions, d width, I inputs, H hidden layers, O outputs, N = H + O targets, K sources, T iterations; P
decisions of a router per sample: 1, or S where it decides at each position.
"""

from __future__ import annotations

from collections.abc import Sequence

from evodevo.errors import UsageError
from evodevo.h_model.aggregations.base import AggregationSizes
from evodevo.h_model.carried import cost as carried
from evodevo.h_model.spec import HModelStructure
from evodevo.networks.canvas import InputSizes, OutputSizes
from evodevo.networks.cost import WEIGHT_BYTES, check_pass
from evodevo.networks.ends_cost import Ends
from evodevo.networks.routing.spec import CAUSAL_POOLS, pool_parameters, pool_products
from evodevo.operators.cost import Cost, Mode, Work, total_work
from evodevo.operators.layers.base import RouterHead
from evodevo.operators.layers.cost import layer_parameters, layer_state_bytes, layer_work


def h_model_cost(
    structure: HModelStructure,
    *,
    inputs: Sequence[InputSizes] = (),
    outputs: Sequence[OutputSizes] = (),
    length: int | None = None,
    batch: int = 1,
    mode: Mode = "prefill",
) -> Cost:
    """Cost of one pass in which every layer runs for every sample; of a carried stream, as many as may.

    ``flops`` counts the visible half of causal attention, ``executed_flops`` the computed scores; ``cache_bytes`` are
    the bytes that step-by-step generation keeps, 0 for a model that is not causal. Embeddings, positions and heads are
    ``embedding_parameters``. ``bytes_read`` counts weights in float32 once per use, without the tables of embeddings.

    Args:
        structure: structure of the model.
        inputs, outputs: inputs and outputs of the task; left out, the cost is that of the core with one input and one
            output.
        length: positions S, where there are no inputs.
        batch: samples.
        mode: ``prefill``, or ``train`` (three times the FLOPs); a whole pass in both.

    Raises:
        UsageError: the number of positions is missing, given twice or out of range; the batch is; mode ``decode``.
    """
    check_pass(batch, mode)
    ends = _ends(structure, inputs, outputs)
    positions = ends.length(length)
    parameters = h_model_parameters(structure, inputs, outputs)
    embedding = parameters.pop("embeddings") + parameters.pop("heads")
    flops, executed = (
        total_work(h_model_work(structure, positions, inputs, outputs, visible=visible).values())
        for visible in (True, False)
    )
    passes = 3 if mode == "train" else 1
    once = sum(parameters.values()) + ends.head_parameters()
    again = (
        (structure.iterations - 1) * sum(parameters[part] for part in ("hidden", "routers", "aggregation"))
        if structure.iterations
        else 0
    )
    cache = 0
    if structure.causal:
        cache = batch * (core_state_bytes(structure, len(inputs) or 1, positions) + ends.state_bytes(positions))
    return Cost(
        parameters=sum(parameters.values()),
        embedding_parameters=embedding,
        cache_bytes=cache,
        flops=passes * batch * flops.total,
        executed_flops=passes * batch * executed.total,
        bytes_read=WEIGHT_BYTES * (once + again) + cache,
    )


def h_model_parameters(
    structure: HModelStructure, inputs: Sequence[InputSizes] = (), outputs: Sequence[OutputSizes] = ()
) -> dict[str, int]:
    """Parameters by part: embeddings, inputs, hidden, routers, iterations, aggregation, halting, outputs, heads.

    Exactly the numbers of ``h_model.model.HModel``; without inputs and outputs, those of a core with one of each.
    """
    ends = _ends(structure, inputs, outputs)
    trained_unit = structure.halting.rule in ("output_mass", "act", "ponder")
    return {
        "embeddings": ends.embedding_parameters(),
        "inputs": ends.input_parameters(),
        **core_parameters(structure, len(inputs) or 1, len(outputs) or 1),
        "halting": structure.width + 1 if trained_unit and outputs else 0,
        "outputs": ends.output_parameters(),
        "heads": ends.head_parameters(),
    }


def core_parameters(structure: HModelStructure, inputs: int, outputs: int) -> dict[str, int]:
    """Parameters of the routing machine by part: hidden, routers, iterations, aggregation."""
    width, hidden, rows = structure.width, len(structure.hidden), structure.iterations
    tables = {"none": 0, "film": 2}.get(structure.iteration_embedding, 1)
    sizes = AggregationSizes(width, inputs, hidden, hidden + outputs)
    return {
        "hidden": sum(layer_parameters(layer, width, causal=structure.causal) for layer in structure.hidden),
        "routers": carried.router_parameters(structure, inputs, outputs)
        if structure.stream == "carried"
        else sum(
            _router_parameters(structure, head, targets) for head, targets in _routers(structure, inputs, outputs)
        ),
        "iterations": tables * max(rows, 1) * width + (rows + 1 if structure.output_division == "learned" else 0),
        "aggregation": structure.aggregation.parameters(sizes),
    }


def h_model_work(
    structure: HModelStructure,
    length: int,
    inputs: Sequence[InputSizes] = (),
    outputs: Sequence[OutputSizes] = (),
    *,
    visible: bool = True,
) -> dict[str, Work]:
    """Work by part of one pass on one sample of S = ``length`` positions: inputs, hidden, routing, halting, outputs."""
    ends = _ends(structure, inputs, outputs)
    halting, answers = 0, 1
    if structure.halting.rule in ("output_mass", "act", "ponder"):
        halting = structure.iterations * 2 * structure.width * (length if structure.causal else 1)
    elif structure.halting.rule == "kl":
        # It compares the answers after every iteration, the input step's included, and then answers.
        answers = structure.iterations + 2
    return {
        "inputs": ends.input_work(visible=visible),
        **core_work(structure, length, len(inputs) or 1, len(outputs) or 1, visible=visible),
        "halting": Work(halting if outputs else 0),
        "outputs": ends.output_work(length, visible=visible).times(answers),
    }


def core_work(
    structure: HModelStructure, length: int, inputs: int, outputs: int, *, visible: bool = True
) -> dict[str, Work]:
    """Work of the routing machine on one sample: hidden layers in all iterations, and routing with aggregation, of each
    pass that answers some of the outputs."""
    passes = structure.passes(outputs)
    routing = _routing_work(structure, length, inputs, outputs, float(structure.iterations))
    if structure.stream == "carried":
        hidden = total_work(carried.hidden_work(structure, length, absent, visible=visible) for absent in passes)
        return {"hidden": hidden, "routing": routing}
    layers = total_work(
        layer_work(layer, structure.width, length, causal=structure.causal, visible=visible)
        for absent in passes
        for place, layer in enumerate(structure.hidden)
        if place not in absent
    )
    return {"hidden": layers.times(structure.iterations), "routing": routing}


def executed_flops(
    structure: HModelStructure,
    calls: Sequence[float],
    *,
    inputs: Sequence[InputSizes] = (),
    outputs: Sequence[OutputSizes] = (),
    length: int | None = None,
    iterations: float | None = None,
) -> float:
    """FLOPs per sample of passes that skip layers or stop early (docs/spec/h_model.md#skipping).

    Routers and aggregation run for all layers in every iteration that takes place, as they do in the model. Of a
    carried stream that decides at each position, a run on some positions counts as their share.

    Args:
        structure: structure of the model.
        calls: mean number of runs of each hidden layer per sample, all iterations and passes together.
        inputs, outputs, length: as in ``h_model_cost``.
        iterations: mean number of iterations per sample, where samples halt early; T if left out.

    Raises:
        UsageError: not one number per hidden layer, or one beyond what the iterations allow.
    """
    rounds = float(structure.iterations) if iterations is None else iterations
    if len(calls) != len(structure.hidden):
        raise UsageError(f"{len(calls)} numbers of calls; the model has {len(structure.hidden)} hidden layers.")
    passes = len(structure.passes(len(outputs) or 1))
    if rounds < 0 or any(not 0 <= count <= passes * rounds + 1e-9 for count in calls):
        most = passes * rounds
        raise UsageError(f"a layer runs at most once per pass and iteration ({most:g}); calls are {list(calls)[:8]}.")
    positions = _ends(structure, inputs, outputs).length(length)
    work = h_model_work(structure, positions, inputs, outputs, visible=False)
    share = rounds / structure.iterations if structure.iterations else 1.0
    hidden = sum(
        count * layer_work(layer, structure.width, positions, causal=structure.causal, visible=False).total
        for count, layer in zip(calls, structure.hidden, strict=True)
    )
    routing = _routing_work(structure, positions, len(inputs) or 1, len(outputs) or 1, rounds).total
    return work["inputs"].total + hidden + routing + share * work["halting"].total + work["outputs"].total


def layer_flops(structure: HModelStructure, length: int) -> list[int]:
    """FLOPs of one run of each hidden layer on one sample: the prices of the inference mode ``budget``."""
    return [
        layer_work(layer, structure.width, length, causal=structure.causal, visible=False).total
        for layer in structure.hidden
    ]


def _ends(structure: HModelStructure, inputs: Sequence[InputSizes], outputs: Sequence[OutputSizes]) -> Ends:
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


# Routers


def _routers(structure: HModelStructure, inputs: int, outputs: int) -> list[tuple[RouterHead, int]]:
    """Head and targets of every router, those of the inputs first."""
    count, window = len(structure.hidden), structure.window
    targets = count if window is None else 2 * window + 1
    # A channel of its own is a layer's business; an input's router is linear then.
    head: RouterHead = "linear" if structure.router.head == "channel" else structure.router.head
    return [(head, count + outputs)] * inputs + [
        (layer.router or structure.router.head, targets + outputs) for layer in structure.hidden
    ]


def _router_parameters(structure: HModelStructure, head: RouterHead, targets: int) -> int:
    width, hidden = structure.width, structure.router.units(structure.width)
    pool = 0 if head in ("constant", "independent") else pool_parameters(structure.pool, width)
    return (
        pool
        + {
            "feedforward": (width + 1) * hidden + (hidden + 1) * targets,
            "linear": (width + 1) * targets,
            "channel": targets,
            "independent": targets,
            "constant": 0,
        }[head]
    )


def _router_work(structure: HModelStructure, head: RouterHead, targets: int, length: int) -> Work:
    if head in ("constant", "independent"):
        return Work()
    width, hidden = structure.width, structure.router.units(structure.width)
    decisions = length if structure.pool in CAUSAL_POOLS else 1
    pool = pool_products(structure.pool, width, length)
    per_decision = {"feedforward": 2 * hidden * (width + targets), "linear": 2 * width * targets}.get(head, 0)
    return Work(pool + decisions * per_decision)


def _routing_work(structure: HModelStructure, length: int, inputs: int, outputs: int, rounds: float) -> Work:
    """Routers and aggregation of the input step and all iterations of every pass; hidden layers receive nothing after
    the last."""
    passes = structure.passes(outputs)
    if structure.stream == "carried":
        return total_work(carried.routing_work(structure, length, inputs, outputs, rounds, absent) for absent in passes)
    hidden = len(structure.hidden)
    routers = [_router_work(structure, head, n, length) for head, n in _routers(structure, inputs, outputs)]
    first = total_work(routers[:inputs])
    each = total_work(routers[inputs:])
    every, last = hidden + outputs, outputs
    products = first.products + rounds * each.products
    if rounds == 0:
        return Work(round(products + _aggregation(structure, length, inputs, last))).times(len(passes))
    products += _aggregation(structure, length, inputs, every) + _aggregation(structure, length, hidden, last)
    products += (rounds - 1) * _aggregation(structure, length, hidden, every)
    return Work(round(products)).times(len(passes))


def _aggregation(structure: HModelStructure, length: int, sources: int, targets: int) -> int:
    per_position = structure.pool in CAUSAL_POOLS
    return structure.aggregation.products(structure.width, length, sources, targets, per_position=per_position)


def core_state_bytes(structure: HModelStructure, inputs: int, length: int) -> int:
    """Bytes that a causal core keeps per sample after S tokens: the state of every layer in every iteration.

    Of a carried stream at most: as if every layer knew all positions, with a byte for each of these that tells it.
    """
    hidden = sum(layer_state_bytes(layer, structure.width, length) for layer in structure.hidden)
    if structure.stream == "carried":
        hidden += len(structure.hidden) * length
    sums = 0
    if structure.pool == "prefix_mean":
        # A running sum and a count for every router.
        sums = WEIGHT_BYTES * (inputs + structure.iterations * len(structure.hidden)) * (structure.width + 1)
    return structure.iterations * hidden + sums

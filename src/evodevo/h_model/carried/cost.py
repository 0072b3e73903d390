"""Parameters and work of a carried stream (``carried/core.py``), in parts.

Legend: S positions, d width, I inputs, H hidden layers, O outputs, N = H + O, M active layers at most, T iterations; P
decisions per sample: 1, or S where connections are decided at each position.
"""

from __future__ import annotations

from evodevo.h_model.spec import HModelStructure
from evodevo.networks.routing.spec import CAUSAL_POOLS, pool_parameters, pool_products
from evodevo.operators.cost import Work, total_work
from evodevo.operators.layers.cost import layer_work


def router_parameters(structure: HModelStructure, inputs: int, outputs: int) -> int:
    """Parameters of the shared router: its pool, a map d -> N (or one for each moment), biases by source and by moment;
    none where routes are given."""
    hidden, settings = len(structure.hidden), structure.carried
    if settings.routes is not None:
        return 0
    targets = hidden + outputs
    own = (inputs + hidden) * targets if settings.source_bias else 0
    own += (structure.iterations + 1) * targets if settings.iteration_bias else 0
    maps = structure.iterations + 1 if settings.iteration_router else 1
    return pool_parameters(structure.pool, structure.width) + maps * (structure.width + 1) * targets + own


def hidden_work(structure: HModelStructure, length: int, *, visible: bool) -> Work:
    """Work of the addressed layers in all iterations; of unequal ones the M with the most work, an upper bound.

    Where every position decides for itself, a layer runs on the whole sample as soon as one position addresses it:
    min(H, M S) layers at most.
    """
    each = [
        layer_work(layer, structure.width, length, causal=structure.causal, visible=visible)
        for layer in structure.hidden
    ]
    most = min(len(each), structure.carried.most * (length if _per_position(structure) else 1))
    dearest = sorted(each, key=lambda work: work.total, reverse=True)[:most]
    return total_work(dearest).times(structure.iterations)


def routing_work(structure: HModelStructure, length: int, inputs: int, outputs: int, rounds: float) -> Work:
    """Router and means of messages, of the input step and of ``rounds`` iterations; layers receive nothing after the
    last."""
    message = 2 * length * structure.width
    mean = inputs * outputs * message  # with which outputs begin
    if rounds == 0:
        return Work(mean)
    width, targets = structure.width, len(structure.hidden) + outputs
    active = min(structure.carried.most, len(structure.hidden))
    decisions = length if _per_position(structure) else 1
    read = pool_products(structure.pool, width, length) + decisions * 2 * width * targets
    if structure.carried.routes is not None:
        read = 0  # a table is looked up
    products: float = mean + inputs * read + inputs * active * message
    products += rounds * active * (read + outputs * message) + (rounds - 1) * active * active * message
    return Work(round(products))


def _per_position(structure: HModelStructure) -> bool:
    return structure.pool in CAUSAL_POOLS

"""Parameters and work of a carried stream (``carried/core.py``), in parts.

Legend: S positions, d width, I inputs, H hidden layers, O outputs, N = H + O, M active layers at most, T iterations; P
decisions per sample: 1, or S where connections are decided at each position.
"""

from __future__ import annotations

from collections.abc import Sequence

from evodevo.h_model.spec import HModelStructure
from evodevo.networks.routing.spec import CAUSAL_POOLS, pool_parameters, pool_products
from evodevo.operators.cost import Work, total_work
from evodevo.operators.layers.cost import layer_context_work, layer_work


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


def hidden_work(structure: HModelStructure, length: int, absent: Sequence[int], *, visible: bool) -> Work:
    """Work of the addressed layers in all iterations of a pass without the ``absent`` ones; of unequal ones the M with
    the most work, an upper bound.

    Where every position decides for itself, a layer computes the outputs of those that address it, and reads of the
    others that it knows what it needs, such as keys and values; t iterations make a position known to M t layers at
    most. A layer that cannot compute some positions alone runs on all of them.
    """
    layers = [layer for place, layer in enumerate(structure.hidden) if place not in absent]
    width, most = structure.width, min(len(layers), structure.carried.most)
    options = {"causal": structure.causal, "visible": visible}
    each = [layer_work(layer, width, length, **options) for layer in layers]
    if not _per_position(structure):
        return _dearest(each, most).times(structure.iterations)
    context = [layer_context_work(layer, width, length, **options) for layer in layers]
    whole = [read for work, read in zip(each, context, strict=True) if read == work]
    parts = [read for work, read in zip(each, context, strict=True) if read != work]
    own = [
        Work(work.products - read.products, work.other - read.other) for work, read in zip(each, context, strict=True)
    ]
    every = _dearest(own, most) + _dearest(whole, most * length)
    return every.times(structure.iterations) + total_work(
        _dearest(parts, most * t) for t in range(1, structure.iterations + 1)
    )


def _dearest(works: Sequence[Work], count: int) -> Work:
    return total_work(sorted(works, key=lambda work: work.total, reverse=True)[:count])


def routing_work(
    structure: HModelStructure, length: int, inputs: int, outputs: int, rounds: float, absent: Sequence[int]
) -> Work:
    """Router and means of messages, of the input step and of ``rounds`` iterations of a pass without the ``absent``
    layers; layers receive nothing after the last."""
    message = 2 * length * structure.width
    mean = inputs * outputs * message  # with which outputs begin
    if rounds == 0:
        return Work(mean)
    width, targets = structure.width, len(structure.hidden) + outputs
    active = min(structure.carried.most, len(structure.hidden) - len(absent))
    decisions = length if _per_position(structure) else 1
    read = pool_products(structure.pool, width, length) + decisions * 2 * width * targets
    if structure.carried.routes is not None:
        read = 0  # a table is looked up
    products: float = mean + inputs * read + inputs * active * message
    products += rounds * active * (read + outputs * message) + (rounds - 1) * active * active * message
    return Work(round(products))


def _per_position(structure: HModelStructure) -> bool:
    return structure.pool in CAUSAL_POOLS

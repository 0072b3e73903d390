"""A module's architecture as numbers: what routers and strategists read, and how far apart two modules are.

The vector is made from the graph, never from the name of a family, so that hybrids and families that did not exist
when a network was trained have one too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import get_args

from evodevo.module_zoo.modules.cost import genotype_parameters, genotype_work, nodes_with_widths
from evodevo.module_zoo.modules.families import ARCHETYPES
from evodevo.module_zoo.modules.graph import order, sources
from evodevo.module_zoo.modules.nodes.base import BUILT_IN, NodeSpec
from evodevo.module_zoo.modules.spec import INPUT, MAX_NODES, OUTPUT, ModuleGenotype
from evodevo.operators.layers.base import BUILT_IN as LAYERS
from evodevo.operators.layers.base import counted_as
from evodevo.operators.spec import Activation

ACTIVATIONS: tuple[str, ...] = get_args(Activation)
LENGTH = 64
"""Positions for which the work of a module enters its vector."""
MOST_BY_WIDTH = 1 << 20
"""Parameters, or FLOPs of a position, for each unit of width, whose entry in the vector is 1."""

# (of which attribute, its least and most, whether its logarithm counts)
_NUMBERS: tuple[tuple[str, float, float, bool], ...] = (
    ("heads", 1, 64, True),
    ("kernel", 1, 9, False),
    ("reduction", 2, 16, True),
    ("layers", 1, 8, False),
    ("both_ways", 0, 1, False),
    ("dropout", 0, 0.5, False),
    ("start", 0, 1, False),
)
VECTOR_SIZE = 2 * len(BUILT_IN) + len(ACTIVATIONS) + len(LAYERS) + 2 * len(_NUMBERS) + 9


def genotype_vector(genotype: ModuleGenotype) -> tuple[float, ...]:
    """``VECTOR_SIZE`` numbers in [0, 1].

    How many nodes there are of each type, and their share of the parameters; which activations and layers; the mean of
    each attribute over nodes, and whether any node has it; hidden units as a factor of the width; the depth, a way past
    everything, an outer sigmoid; parameters and work.

    Raises:
        GenomeError: the graph cannot be built.
    """
    nodes, width = genotype.graph.nodes, genotype.width
    vector = [_log(sum(_entry(node) == entry for node in nodes), MAX_NODES) for entry in BUILT_IN]
    vector += _shares_of_parameters(genotype)
    vector += [_share(nodes, "activation", activation) for activation in ACTIVATIONS]
    kinds = [counted_as(node.held_layer.kind) for node in nodes if node.held_layer is not None]
    vector += [kinds.count(layer) / max(len(kinds), 1) for layer in LAYERS]
    for name, low, high, logarithmic in _NUMBERS:
        values = [float(getattr(node, name)) for node in nodes if hasattr(node, name)]
        scaled = [_scaled(value, low, high, logarithmic) for value in values]
        vector += [float(bool(values)), sum(scaled) / max(len(scaled), 1)]
    hidden = [getattr(node, "hidden", getattr(node, "width", 0)) / width for node in nodes]
    sizes = [math.log2(units) for units in hidden if units > 0]
    vector += [float(bool(sizes)), _scaled(sum(sizes) / len(sizes), -4, 4, False) if sizes else 0.0]
    deepest, shortest = _depths(genotype)
    vector += [_log(deepest, MAX_NODES), float(shortest == 0), _share(nodes, "outer", "sigmoid")]
    flops = genotype_work(genotype, LENGTH).total / LENGTH
    vector += [_log(genotype_parameters(genotype) / width, MOST_BY_WIDTH), _log(flops / width, MOST_BY_WIDTH)]
    vector += [_log(genotype_parameters(genotype), 1 << 36), _log(len(nodes), MAX_NODES)]
    return tuple(vector)


def width_of(vector: Sequence[float], parameters: int) -> int:
    """The width of the module with this vector, rounded to five digits or not, and so many parameters; 0 of none."""
    by_width = math.expm1(min(max(vector[-4], 0.0), 1.0) * math.log1p(MOST_BY_WIDTH))
    return round(parameters / by_width) if by_width > 0 else 0


def _shares_of_parameters(genotype: ModuleGenotype) -> list[float]:
    each = [(_entry(node), node.parameters(width)) for node, width in nodes_with_widths(genotype)]
    total = max(sum(count for _, count in each), 1)
    return [sum(count for name, count in each if name == entry) / total for entry in BUILT_IN]


def _entry(node: NodeSpec) -> str:
    """The built-in kind under which a node counts."""
    return node.counts_as or node.type


def _depths(genotype: ModuleGenotype) -> tuple[int, int]:
    """Nodes with parameters on the longest and on the shortest way from ``in`` to ``out``."""
    inputs = sources(genotype.graph)
    longest, shortest = {INPUT: 0}, {INPUT: 0}
    for node in order(genotype.graph):
        own = not node.joins
        longest[node.id] = own + max(longest[begin] for begin in inputs[node.id])
        shortest[node.id] = own + min(shortest[begin] for begin in inputs[node.id])
    (last,) = inputs[OUTPUT]
    return longest[last], shortest[last]


def _share(nodes: Sequence[NodeSpec], name: str, value: str) -> float:
    """Share of nodes with this value among those that have the attribute, 0 to 1; 0 where none has it."""
    values = [getattr(node, name) for node in nodes if hasattr(node, name)]
    return values.count(value) / max(len(values), 1)


def _log(number: float, most: float) -> float:
    return min(math.log1p(number) / math.log1p(most), 1.0)


def _scaled(value: float, low: float, high: float, logarithmic: bool) -> float:
    value = min(max(value, low), high)
    if logarithmic:
        return math.log(value / low) / math.log(high / low)
    return (value - low) / (high - low)


def genotype_distance(a: ModuleGenotype, b: ModuleGenotype) -> float:
    """Gower's distance (eqs. 19 and 70): the mean over attributes, in [0, 1], and 1 more where the families differ.

    An attribute differs by a share of its range, a category by 0 or 1, and by 1 where only one of them has it. Of
    hybrids, and of whatever else is of no family, the vectors are compared.

    Raises:
        GenomeError: the graph of a hybrid cannot be built.
    """
    apart = float(a.archetype != b.archetype)
    if a.archetype not in ARCHETYPES or b.archetype not in ARCHETYPES:
        pairs = zip(genotype_vector(a), genotype_vector(b), strict=True)
        return apart + math.fsum(abs(x - y) for x, y in pairs) / VECTOR_SIZE
    left, right = (ARCHETYPES.get(genotype.archetype).attributes for genotype in (a, b))
    parts = []
    for name in left.keys() | right.keys():
        if name not in left or name not in right or type(left[name]) is not type(right[name]):
            parts.append(1.0)
            continue
        # Two families may give one attribute two ranges.
        parts.extend(kind[name].difference(a.attributes[name], b.attributes[name]) / 2 for kind in (left, right))
    # Exact, since sets of names have another order in each process.
    return apart + math.fsum(parts) / max(len(left.keys() | right.keys()), 1)

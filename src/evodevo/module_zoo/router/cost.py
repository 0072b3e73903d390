"""What a router over modules costs: exact parameters, and the work of one sample (Architect Thyself).

Source: docs/spec/architect_thyself.md#router.

``module_zoo/router/others.py`` builds exactly these parameters; a test recounts them, and the matrix products.

Legend: d width, N modules, H heads, d_h = d / H, U hidden units, V numbers of a genotype vector.
"""

from __future__ import annotations

from evodevo.module_zoo.spec import ZooRouterStructure
from evodevo.operators.cost import Work


def router_parameters(structure: ZooRouterStructure, width: int, count: int, vector_size: int) -> int:
    """Parameters of the router, of its predictor and of its genotype keys where the structure has them.

    Args:
        structure: of the router.
        width: d.
        count: N, all modules that the router keeps something of, disabled ones included.
        vector_size: V.
    """
    total = _values_parameters(structure, width) + (2 * width if structure.norm else 0)
    if structure.gate == "entmax" and structure.kind != "mean":
        total += 1
    if structure.kind == "mlp_gate":
        total += _predictor_parameters(structure, width, count)
    elif structure.kind == "architecture":
        total += count
    elif structure.kind == "graph_attention":
        total += _attention_parameters(structure, width)
        if structure.keys == "predictor":
            total += _predictor_parameters(structure, width, count)
        elif structure.keys == "genotype":
            total += count * width + vector_size * width + width + width**2 + width
    return total


def router_work(structure: ZooRouterStructure, width: int, count: int, vector_size: int) -> Work:
    """Work of deciding and mixing for one sample that is alone; arguments as ``router_parameters``, N live modules.

    A batch shares what depends on genotypes alone: with such keys this is the most that a sample costs.
    """
    work = _values_work(structure, width, count)
    if structure.kind == "mlp_gate":
        work += _predictor_work(structure, width, count)
    elif structure.kind == "graph_attention":
        work += _attention_work(structure, width, count)
        if structure.keys == "predictor":
            work += _predictor_work(structure, width, count)
        elif structure.keys == "genotype":
            work += Work(2 * count * (vector_size * width + width**2))
    return work


def _heads(structure: ZooRouterStructure) -> int:
    return structure.heads if structure.kind == "graph_attention" else 1


def _values_parameters(structure: ZooRouterStructure, width: int) -> int:
    printed = structure.values == "paper"
    value = 0 if structure.identity else width**2 * (_heads(structure) if printed else 1)
    return value + (0 if printed else width**2)


def _values_work(structure: ZooRouterStructure, width: int, count: int) -> Work:
    """Heads are mixed before they are mapped (routing/module_values.py)."""
    printed = structure.values == "paper"
    mixtures = 1 if printed or structure.identity else _heads(structure)
    maps = (0 if structure.identity else 1) + (0 if printed else 1)
    return Work(2 * mixtures * count * width + 2 * maps * width**2)


def _attention_parameters(structure: ZooRouterStructure, width: int) -> int:
    heads = structure.heads
    total = 0 if structure.identity else 2 * width**2
    if structure.synergy != "off":
        total += heads
    if structure.synergy == "bilinear":
        total += width * (width // heads)
    return total + (structure.temperature == "learned") + (heads if structure.head_mix == "learned" else 0)


def _attention_work(structure: ZooRouterStructure, width: int, count: int) -> Work:
    products = 2 * count * width  # relevance
    if not structure.identity:
        products += 2 * (count + 1) * width**2
    if structure.synergy != "off":
        products += 2 * count**2 * width
    if structure.synergy == "bilinear":
        products += 2 * count * width * (width // structure.heads)
    return Work(products)


def _predictor_parameters(structure: ZooRouterStructure, width: int, count: int) -> int:
    units = structure.predictor_hidden or width
    return width * units + units + count * (units + 1)


def _predictor_work(structure: ZooRouterStructure, width: int, count: int) -> Work:
    units = structure.predictor_hidden or width
    return Work(2 * units * (width + count))

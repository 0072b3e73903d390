"""The cost of a module of a zoo: exact parameters, and the work of one call on one sample.

Each kind of node states its own. Tests recount the parameters of the built modules, and the products. A counter alone
would not do: PyTorch's gives 0 for fused attention and for an LSTM.

Legend: L positions.
"""

from __future__ import annotations

from evodevo.module_zoo.modules.graph import sources, widths
from evodevo.module_zoo.modules.nodes.base import NodeSpec
from evodevo.module_zoo.modules.spec import INPUT, ModuleGenotype
from evodevo.operators.cost import Work, total_work


def genotype_parameters(genotype: ModuleGenotype) -> int:
    """Trainable numbers of a module.

    Raises:
        GenomeError: the graph cannot be built.
    """
    return sum(node.parameters(width) for node, width in nodes_with_widths(genotype))


def genotype_work(genotype: ModuleGenotype, length: int) -> Work:
    """FLOPs of one call on one sample of L real positions, all that is computed.

    Raises:
        GenomeError: the graph cannot be built.
    """
    return total_work(node.work(width, length) for node, width in nodes_with_widths(genotype))


def nodes_with_widths(genotype: ModuleGenotype) -> list[tuple[NodeSpec, int]]:
    """Each node with the channels that it reads, those of its first input.

    Raises:
        GenomeError: the graph cannot be built.
    """
    channels = {INPUT: genotype.width, **widths(genotype.graph, genotype.width)}
    inputs = sources(genotype.graph)
    return [(node, channels[inputs[node.id][0]]) for node in genotype.graph.nodes]

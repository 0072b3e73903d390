"""The cost of an imported network as a path."""

from __future__ import annotations

from evodevo.multitask.paths.network.spec import NetworkStructure


def path_flops(structure: NetworkStructure) -> float:
    """FLOPs of one sample: the network without its own answers, at the full length of its inputs, and the head."""
    network, _ = structure.network()
    return float(network.cost(inputs=structure.inputs).executed_flops + 2 * structure.width * structure.classes)

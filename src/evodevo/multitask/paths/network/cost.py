"""The cost of an imported network as a path."""

from __future__ import annotations

from evodevo.backbone.space import BackboneSettings, BackboneSpace
from evodevo.multitask.paths.network.spec import NetworkStructure
from evodevo.networks.spec import NetworkEnvelope
from evodevo.settings import validate


def path_flops(structure: NetworkStructure) -> float:
    """FLOPs of one sample: the network without its own answers, at the full length of its inputs, and the head."""
    return float(_network_flops(structure) + 2 * structure.width * structure.classes)


def _network_flops(structure: NetworkStructure) -> int:
    if structure.source == "backbone":
        settings = validate(BackboneSettings, structure.model["space"], what="the space of an imported backbone")
        space = BackboneSpace(settings)
        length = structure.inputs[0].length
        return space.cost(space.from_json(structure.genome), length=length, convention="actual").executed_flops
    network = validate(NetworkEnvelope, structure.genome, what="an imported network").network
    return network.cost(inputs=structure.inputs).executed_flops

"""Networks of the library as a family of paths: see ``spaces.path_families``."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from evodevo.backbone.space import BackboneSettings, BackboneSpace
from evodevo.multitask.genome import Path
from evodevo.multitask.hyperparameters import (
    ADAPTER_WIDTH,
    IMAGE_SIZE,
    NUM_LAYERS,
    Hyperparameters,
    Version,
    singlepath_hyperparameters,
)
from evodevo.multitask.paths.families import PathFamily, PathStructure
from evodevo.multitask.paths.network.spec import HEAD, KIND, NORM, NetworkStructure, structure_of
from evodevo.networks.spec import NetworkEnvelope
from evodevo.settings import validate


class NetworkPaths(PathFamily):
    """See ``PathFamily``. There are no presets: a root is a network that was trained elsewhere."""

    kind = KIND
    augments = True
    presets: Mapping[str, PathStructure] = {}
    fields: Mapping[str, str] = {}

    def structure_of(self, path: Path) -> NetworkStructure:
        return structure_of(path)

    def structure(self, values: Mapping[str, Any], what: str) -> NetworkStructure:
        return validate(NetworkStructure, dict(values), what=what)

    def parameters(self, structure: NetworkStructure) -> dict[str, int]:
        sizes = {part.role: part.parameters for part in structure.parts}
        if structure.classes:
            sizes |= {NORM: 2 * structure.width, HEAD: (structure.width + 1) * structure.classes}
        return sizes

    def flops(self, structure: NetworkStructure) -> float:
        """What the cost model says of the network without its own answers, at the full length of its inputs."""
        return float(_network_flops(structure) + 2 * structure.width * structure.classes)

    def hyperparameters(self, size: str, version: Version) -> Hyperparameters:
        """The optimizer's and the data's: how deep such a network is, and at which size it looks, is settled."""
        settled = (NUM_LAYERS, IMAGE_SIZE, ADAPTER_WIDTH)
        space = singlepath_hyperparameters(size, version)
        return Hyperparameters(rows=tuple(row for row in space.rows if row.key not in settled))

    def needs(self, structure: NetworkStructure) -> frozenset[str]:
        return frozenset(one.asks for one in structure.read if one.use == "needed")

    def reads(self, structure: NetworkStructure, modalities: Collection[str]) -> bool:
        """What it needs, and of what it can do without at least one."""
        return super().reads(structure, modalities) and any(one.asks in modalities for one in structure.read)


def _network_flops(structure: NetworkStructure) -> int:
    if structure.source == "backbone":
        settings = validate(BackboneSettings, structure.model["space"], what="the space of an imported backbone")
        space = BackboneSpace(settings)
        length = structure.inputs[0].length
        return space.cost(space.from_json(structure.genome), length=length, convention="actual").executed_flops
    network = validate(NetworkEnvelope, structure.genome, what="an imported network").network
    return network.cost(inputs=structure.inputs).executed_flops


NETWORK = NetworkPaths()

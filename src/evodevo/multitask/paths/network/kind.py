"""Networks of the library as a kind of path: see ``paths.kinds``."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from evodevo.multitask.hyperparameters import (
    IMAGE_SIZE,
    NUM_LAYERS,
    Hyperparameters,
    Version,
    singlepath_hyperparameters,
)
from evodevo.multitask.paths.component_kind import ComponentKind
from evodevo.multitask.paths.kinds import PathStructure
from evodevo.multitask.paths.network.cost import path_flops
from evodevo.multitask.paths.network.spec import HEAD, KIND, NORM, NetworkStructure

if TYPE_CHECKING:
    from evodevo.multitask.paths.builder import PathBuilder
    from evodevo.multitask.source.written import WrittenPath
    from evodevo.operators.source.sheet import SourceSheet


class NetworkPaths(ComponentKind[NetworkStructure]):
    """See ``SinglepathKind``. There are no presets: a root is a network that was trained elsewhere."""

    kind = KIND
    structures = NetworkStructure
    augments = True
    presets: Mapping[str, PathStructure] = {}
    fields: Mapping[str, str] = {}

    @property
    def builder(self) -> PathBuilder[NetworkStructure]:
        from evodevo.multitask.paths.network.builder import BUILDER

        return BUILDER

    def source(self, path: Any, sheet: SourceSheet) -> WrittenPath:
        from evodevo.multitask.source.network import network_source

        return network_source(path, sheet)

    def parameters(self, structure: NetworkStructure) -> dict[str, int]:
        sizes = {part.role: part.parameters for part in structure.parts}
        if structure.classes:
            sizes |= {NORM: 2 * structure.width, HEAD: (structure.width + 1) * structure.classes}
        return sizes

    def flops(self, structure: NetworkStructure) -> float:
        """FLOPs of the network without its own outputs, by the cost model, at the full length of its inputs."""
        return path_flops(structure)

    def hyperparameters(self, size: str, version: Version) -> Hyperparameters:
        """Those of optimizer and data: depth and image size of such a network are fixed."""
        settled = (NUM_LAYERS, IMAGE_SIZE)
        space = singlepath_hyperparameters(size, version)
        return Hyperparameters(rows=tuple(row for row in space.rows if row.key not in settled))

    def needs(self, structure: NetworkStructure) -> frozenset[str]:
        return frozenset(spec.asks for spec in structure.read if spec.use == "needed")

    def reads(self, structure: NetworkStructure, modalities: Collection[str]) -> bool:
        """Whether all inputs that it needs are there, and at least one of the others."""
        return super().reads(structure, modalities) and any(spec.asks in modalities for spec in structure.read)


NETWORK = NetworkPaths()

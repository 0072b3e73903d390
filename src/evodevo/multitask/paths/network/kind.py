"""Networks of the library as a kind of path: see ``paths.kinds``."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from evodevo.multitask.genome import Path
from evodevo.multitask.hyperparameters import (
    IMAGE_SIZE,
    NUM_LAYERS,
    Hyperparameters,
    Version,
    singlepath_hyperparameters,
)
from evodevo.multitask.paths.kinds import PathStructure, SinglepathKind
from evodevo.multitask.paths.network.cost import path_flops
from evodevo.multitask.paths.network.spec import HEAD, KIND, NORM, NetworkStructure, structure_of
from evodevo.settings import validate

if TYPE_CHECKING:
    from evodevo.multitask.evaluate_settings import PathRequest
    from evodevo.multitask.paths.built import BuiltPath, FrozenPart
    from evodevo.storage.blobs import BlobPool
    from evodevo.tasks.base import SampleTask
    from evodevo.training.precision import Precision


class NetworkPaths(SinglepathKind):
    """See ``SinglepathKind``. There are no presets: a root is a network that was trained elsewhere."""

    kind = KIND
    augments = True
    presets: Mapping[str, PathStructure] = {}
    fields: Mapping[str, str] = {}

    def build(self, request: PathRequest, pool: BlobPool, task: SampleTask, precision: Precision) -> BuiltPath:
        from evodevo.multitask.paths.network.evaluate import build_network_path

        return build_network_path(request, pool, task, precision)

    def freeze(self, path: Path, digests: Mapping[str, str], pool: BlobPool, head: bool) -> FrozenPart:
        from evodevo.multitask.paths.network.evaluate import freeze_network_path

        return freeze_network_path(path, digests, pool, head)

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

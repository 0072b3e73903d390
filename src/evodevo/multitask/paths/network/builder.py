"""Imported networks put together: parts from a checkpoint, shared or copied, and what a task added to them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from evodevo import canonical
from evodevo.errors import DataError
from evodevo.multitask.evaluate_settings import PathRequest
from evodevo.multitask.genome import Path
from evodevo.multitask.paths.builder import PathBuilder
from evodevo.multitask.paths.built import BuiltPath, FrozenPart
from evodevo.multitask.paths.frozen import FrozenPath
from evodevo.multitask.paths.network.cost import path_flops
from evodevo.multitask.paths.network.model import NetworkPath
from evodevo.multitask.paths.network.reading import read_network_samples
from evodevo.multitask.paths.network.spec import NetworkStructure
from evodevo.multitask.paths.weights import load_state
from evodevo.storage.blobs import BlobPool
from evodevo.tasks.base import SampleTask
from evodevo.training.precision import Precision


class NetworkBuilder(PathBuilder[NetworkStructure]):
    """See ``PathBuilder``."""

    def build(
        self, structure: NetworkStructure, request: PathRequest, pool: BlobPool, task: SampleTask, precision: Precision
    ) -> BuiltPath:
        """The path of a request.

        Raises:
            StoreDamagedError: a component is gone or damaged.
            DataError: a component of another structure.
        """
        model = NetworkPath(structure, request.seed)
        for role, source in request.components.items():
            if source.digest is not None:
                model.put(role, load_state(pool, source.digest, role, source.source))
            elif structure.part(role) is not None:
                raise DataError(f"the part {role!r} of an imported network has no weights; parts are never made anew.")
        read = partial(read_network_samples, structure)
        return BuiltPath(model, model.components(), path_flops(structure), read, precision)

    def freeze(
        self, structure: NetworkStructure, path: Path, digests: Mapping[str, str], pool: BlobPool, head: bool
    ) -> FrozenPart:
        """A published path, whole or without norm and head; see ``SinglepathKind.freeze``."""
        if not head:
            structure = structure.changed(classes=0)
        model = NetworkPath(structure)
        for role in structure.roles:
            model.put(role, load_state(pool, digests[role], role, path.id))
        specification = structure.input_spec
        return FrozenPart(
            FrozenPath(model, reads=f"network {canonical.digest(specification)[:16]}"),
            partial(read_network_samples, structure),
            structure.model_dump(mode="json"),
            specification,
            structure.width,
            path_flops(structure),
        )


BUILDER = NetworkBuilder()

"""Imported networks at work: parts from a checkpoint, shared or copied, and what a task added to them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from torch import Tensor

from evodevo import canonical
from evodevo.errors import DataError
from evodevo.multitask.evaluate_settings import PathRequest
from evodevo.multitask.genome import Path
from evodevo.multitask.paths.built import BuiltPath, FrozenPart, PathSamples
from evodevo.multitask.paths.frozen import FrozenPath
from evodevo.multitask.paths.network.cost import path_flops
from evodevo.multitask.paths.network.input import read_samples
from evodevo.multitask.paths.network.model import NetworkPath
from evodevo.multitask.paths.network.spec import NetworkStructure, structure_of
from evodevo.multitask.paths.weights import load_state
from evodevo.storage.blobs import BlobPool
from evodevo.tasks.base import SampleTask
from evodevo.training.precision import Precision


def build_network_path(request: PathRequest, pool: BlobPool, task: SampleTask, precision: Precision) -> BuiltPath:
    """The path of a request.

    Raises:
        StoreDamagedError: a component is gone or damaged.
        DataError: a component of another structure.
    """
    model = NetworkPath(structure_of(request.path), request.seed)
    for role, source in request.components.items():
        if source.digest is not None:
            model.put(role, load_state(pool, source.digest, role, source.source))
        elif model.structure.part(role) is not None:
            raise DataError(f"the part {role!r} of an imported network has no weights; parts are never made anew.")
    read = partial(read_network_samples, model.structure)
    return BuiltPath(model, model.components(), path_flops(model.structure), read, precision)


def freeze_network_path(path: Path, digests: Mapping[str, str], pool: BlobPool, head: bool) -> FrozenPart:
    """A published path, whole or without norm and head; see ``SinglepathKind.freeze``."""
    structure = structure_of(path)
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


def read_network_samples(structure: NetworkStructure, samples: PathSamples) -> dict[str, Tensor]:
    """Inputs of an imported network from samples, by the names of its inputs."""
    given = [(spec.name, spec.modality) for spec in samples.inputs]
    return read_samples(structure.inputs, given, samples.batch, lambda: samples.images)

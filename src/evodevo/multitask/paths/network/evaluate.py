"""Imported networks at work: parts from a checkpoint, shared or copied, and what a task added to them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from evodevo import canonical
from evodevo.errors import DataError
from evodevo.multitask.evaluate_settings import PathRequest
from evodevo.multitask.genome import Path
from evodevo.multitask.paths.built import BuiltPath, FrozenPart, PathSamples, Places, Reader, on_device
from evodevo.multitask.paths.frozen import FrozenPath
from evodevo.multitask.paths.network.cost import path_flops
from evodevo.multitask.paths.network.input import read_samples
from evodevo.multitask.paths.network.model import NetworkPath
from evodevo.multitask.paths.network.spec import NetworkStructure, structure_of
from evodevo.multitask.paths.weights import count_parameters, load_state
from evodevo.multitask.training.values import DataValues
from evodevo.storage.blobs import BlobPool
from evodevo.tasks.base import SampleTask, Split
from evodevo.training.precision import Precision


class BuiltNetworkPath(BuiltPath):
    """See ``BuiltPath``.

    Args:
        model: the network with its weights.
        precision: device and number format.
    """

    def __init__(self, model: NetworkPath, precision: Precision) -> None:
        self.model: NetworkPath = model.to(precision.device)
        self.components = model.components()
        self.flops = path_flops(model.structure)
        self._precision = precision

    @property
    def parameters(self) -> int:
        """Number of parameters of its components; the network's own outputs are left out."""
        return sum(map(count_parameters, self.components.values()))

    def reader(self, task: SampleTask, split: Split, values: DataValues, seed: int) -> Reader:
        def read(places: Places, step: int | None) -> Any:
            samples = PathSamples(task, split, places, values, seed, step)
            return on_device(read_network_samples(self.model.structure, samples), self._precision.device)

        return read


def build_network_path(
    request: PathRequest, pool: BlobPool, task: SampleTask, precision: Precision
) -> BuiltNetworkPath:
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
    return BuiltNetworkPath(model, precision)


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
        lambda samples: read_network_samples(structure, samples),
        structure.model_dump(mode="json"),
        specification,
        structure.width,
        path_flops(structure),
    )


def read_network_samples(structure: NetworkStructure, samples: PathSamples) -> dict[str, Tensor]:
    """Inputs of an imported network from samples, by the names of its inputs."""
    given = [(spec.name, spec.modality) for spec in samples.inputs]
    return read_samples(structure.inputs, given, samples.batch, lambda: samples.images)

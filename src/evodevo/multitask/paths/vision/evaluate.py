"""Vision paths at work: a transformer from components that were stored, copied, resized, inserted or made anew.

Samples are read as in ``paths.images``.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from torch import nn

from evodevo.errors import DataError, UsageError
from evodevo.multitask.evaluate_settings import ComponentSource, PathRequest
from evodevo.multitask.genome import Path
from evodevo.multitask.paths.built import BuiltPath, FrozenPart
from evodevo.multitask.paths.frozen import FrozenPath
from evodevo.multitask.paths.images import read_samples
from evodevo.multitask.paths.model import component_of, stored_components
from evodevo.multitask.paths.vision.expansion import resize_positions
from evodevo.multitask.paths.vision.model import VisionPath, build_component, component_from_state
from evodevo.multitask.paths.vision.roots import read_root
from evodevo.multitask.paths.vision.spec import VisionStructure, path_flops, structure_of
from evodevo.storage.blobs import BlobPool
from evodevo.tasks.base import SampleTask
from evodevo.training.precision import Precision


def build_vision_path(request: PathRequest, pool: BlobPool, task: SampleTask, precision: Precision) -> BuiltPath:
    """The path of a request.

    Raises:
        NotFoundError, StoreDamagedError: a component is gone or damaged.
        DataError: a component of another structure.
    """
    structure = structure_of(request.path)
    components = {
        role: component(structure, role, source, pool, request.seed) for role, source in request.components.items()
    }
    flops = float(path_flops(structure))
    return BuiltPath(VisionPath(structure, components), components, flops, partial(read_samples, structure), precision)


def component(structure: VisionStructure, role: str, source: ComponentSource, pool: BlobPool, seed: int) -> nn.Module:
    """One component from its source."""
    return component_of(
        role,
        source,
        pool,
        make=lambda identity: build_component(structure, role, seed, identity=identity),
        restore=lambda state: component_from_state(structure, role, state),
        resize=lambda state: resize_positions(state, structure.grid),
    )


def freeze_vision_path(path: Path, digests: Mapping[str, str], pool: BlobPool, head: bool) -> FrozenPart:
    """A published path, whole or without its head; see ``SinglepathKind.freeze``."""
    structure = structure_of(path)
    if not head:
        structure = structure.changed(classes=0)
    parts = stored_components(structure, path, digests, pool, partial(component_from_state, structure))
    model = VisionPath(structure, parts).eval()
    return FrozenPart(
        FrozenPath(model, reads=f"{structure.image_size} x {structure.channels}"),
        partial(read_samples, structure),
        structure.model_dump(mode="json"),
        structure.input_spec,
        structure.width,
        float(path_flops(structure)),
    )


def make_vision_root(request: PathRequest, pool: BlobPool) -> dict[str, nn.Module]:
    """The components of a root; see ``SinglepathKind.make_root``.

    Raises:
        UsageError: neither at random nor from a checkpoint.
        DataError: the checkpoint is of another shape.
    """
    structure = structure_of(request.path)
    if request.root == "random_init":
        return {
            role: component(structure, role, source, pool, request.seed) for role, source in request.components.items()
        }
    if request.checkpoint is None:
        raise UsageError("a root from a checkpoint names its folder.")
    checkpoint = read_root(request.checkpoint, image_size=structure.image_size)
    for role in structure.roles:
        if role not in checkpoint.components or checkpoint.structure.signature(role) != structure.signature(role):
            raise DataError(
                f"the checkpoint {request.checkpoint} does not fit the root {request.path.id}: its {role!r} is of"
                " another shape. Give the root the checkpoint's structure."
            )
    if checkpoint.structure.layers != structure.layers:
        raise DataError(
            f"the checkpoint {request.checkpoint} has {checkpoint.structure.layers} layers, and the root"
            f" {request.path.id} has {structure.layers}."
        )
    return {role: checkpoint.components[role] for role in structure.roles}

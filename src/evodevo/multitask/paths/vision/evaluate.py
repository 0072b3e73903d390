"""Vision paths at work: a transformer from components that were stored, copied, resized, inserted or made anew.

Tasks hand out uint8, grey or in colour, of any size; the path makes three channels of one and resizes, so that a frozen
path reads the samples of another task (without augmentation; docs/spec/munet.md#augmentation).

Legend: B samples.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from evodevo.errors import DataError, UsageError
from evodevo.multitask.evaluate_settings import ComponentSource, PathRequest
from evodevo.multitask.genome import Path
from evodevo.multitask.paths.built import BuiltPath, FrozenPart, PathSamples
from evodevo.multitask.paths.frozen import FrozenPath
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


def read_samples(structure: VisionStructure, samples: PathSamples) -> Tensor:
    """Input of a path from samples (B, channels, S, S), in [-1, 1]."""
    return torch.cat([prepare_images(structure, view) for view in samples.images])


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


def read_images(structure: VisionStructure, raw: Tensor) -> Tensor:
    """Images (B, height, width, channels) of bytes, one or three channels -> (B, channels, S, S) in [-1, 1].

    Raises:
        UsageError: other channels, or no bytes.
    """
    if raw.dim() != 4 or raw.shape[3] not in (1, 3) or raw.dtype != torch.uint8:
        raise UsageError(
            "a path reads images as bytes of shape (samples, height, width, 1 or 3 channels); "
            f"{raw.dtype} of shape {tuple(raw.shape)} were given."
        )
    return prepare_images(structure, raw.permute(0, 3, 1, 2).float())


def prepare_images(structure: VisionStructure, images: Tensor) -> Tensor:
    """Numbers (B, c, height, width) in [0, 255], as augmentation leaves them -> (B, channels, S, S) in [-1, 1]."""
    return scaled(resized(with_channels(images, structure.channels), structure.image_size))


def with_channels(images: Tensor, channels: int) -> Tensor:
    """Images (B, c, height, width): a grey one is repeated, and one in colour becomes its brightness."""
    if images.shape[1] == channels:
        return images
    if channels == 1:
        # Rec. 601, as pillow does it.
        return (images * images.new_tensor([0.299, 0.587, 0.114]).view(1, 3, 1, 1)).sum(1, keepdim=True)
    return images.expand(-1, channels, -1, -1)


def resized(images: Tensor, size: int) -> Tensor:
    """Images (B, c, height, width) -> (B, c, size, size), bilinear; the aspect is not kept.

    A smaller image averages what falls together, since patterns would appear otherwise.
    """
    if tuple(images.shape[2:]) == (size, size):
        return images
    return F.interpolate(images, (size, size), mode="bilinear", antialias=True, align_corners=False)


def scaled(images: Tensor) -> Tensor:
    """Numbers in [0, 255] -> [-1, 1]."""
    return (images / 127.5 - 1).clamp(-1, 1)

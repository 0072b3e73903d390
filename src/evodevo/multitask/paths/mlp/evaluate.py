"""Paths over vectors at work: from components that were stored, copied, widened, inserted or made anew, and with the
statistics that a new embedding takes of its task.

Legend: B samples, G numbers of a sample.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn

from evodevo.errors import UsageError
from evodevo.multitask.evaluate_settings import ComponentSource, PathRequest
from evodevo.multitask.genome import Path
from evodevo.multitask.paths.built import BuiltPath, FrozenPart, PathSamples
from evodevo.multitask.paths.frozen import FrozenPath
from evodevo.multitask.paths.mlp.model import (
    MLPPath,
    RowEmbedding,
    build_component,
    component_from_state,
    resize_block,
)
from evodevo.multitask.paths.mlp.spec import MLPStructure, path_work, structure_of
from evodevo.multitask.paths.model import component_of, stored_components
from evodevo.storage.blobs import BlobPool
from evodevo.tasks.base import SampleTask
from evodevo.tasks.inputs import InputSpec
from evodevo.training.precision import Precision

MOST_MEASURED = 100_000
"""Training samples of which statistics are taken: of a larger task the first ones."""


def build_mlp_path(request: PathRequest, pool: BlobPool, task: SampleTask, precision: Precision) -> BuiltPath:
    """The path of a request. A new embedding takes the mean and deviation of the task's training samples.

    Raises:
        UsageError: the task hands out no vectors of this size.
        StoreDamagedError: a component is gone or damaged.
        DataError: a component of another structure.
    """
    structure = structure_of(request.path)

    def measured(embedding: RowEmbedding) -> None:
        places = np.arange(min(task.count("train"), MOST_MEASURED))
        name = vector_input(task.inputs, structure.inputs)
        embedding.measure(torch.from_numpy(np.array(task.fetch("train", places)[name])))

    components = {
        role: _component(structure, role, source, pool, request.seed, measured)
        for role, source in request.components.items()
    }
    read = partial(read_vectors, structure)
    return BuiltPath(MLPPath(structure, components), components, float(path_work(structure).total), read, precision)


def freeze_mlp_path(path: Path, digests: Mapping[str, str], pool: BlobPool, head: bool) -> FrozenPart:
    """A published path, whole or without its head; see ``SinglepathKind.freeze``."""
    structure = structure_of(path)
    if not head:
        structure = structure.changed(classes=0)
    parts = stored_components(structure, path, digests, pool, partial(component_from_state, structure))
    return FrozenPart(
        FrozenPath(MLPPath(structure, parts).eval(), reads=f"{structure.inputs} numbers"),
        partial(read_vectors, structure),
        structure.model_dump(mode="json"),
        structure.input_spec,
        structure.width,
        float(path_work(structure).total),
    )


def make_mlp_root(request: PathRequest, pool: BlobPool) -> dict[str, nn.Module]:
    """The components of a root; see ``SinglepathKind.make_root``.

    Raises:
        UsageError: not at random.
    """
    if request.root != "random_init":
        raise UsageError("a root of an MLP path is made at random, or pretrained on a task.")

    def refused(embedding: RowEmbedding) -> None:
        raise UsageError("an embedding takes the statistics of a task's samples, and this root has no task.")

    structure = structure_of(request.path)
    return {
        role: _component(structure, role, source, pool, request.seed, refused)
        for role, source in request.components.items()
    }


def read_vectors(structure: MLPStructure, samples: PathSamples) -> Tensor:
    """Vectors (B, G) of samples, as the task hands them out.

    Raises:
        UsageError: there is no input of vectors of this size, or more than one.
    """
    return torch.from_numpy(np.array(samples.batch[vector_input(samples.inputs, structure.inputs)], np.float32))


def vector_input(inputs: tuple[InputSpec, ...], size: int) -> str:
    """The name of the one input that is a vector of a size.

    Raises:
        UsageError: there is none, or more than one.
    """
    names = [spec.name for spec in inputs if spec.modality == "vector" and spec.size == size]
    if len(names) != 1:
        given = ", ".join(f"{spec.name} ({spec.modality}, {spec.size})" for spec in inputs)
        raise UsageError(f"this path reads one vector of {size} numbers; the samples of this task hold {given}.")
    return names[0]


def _component(
    structure: MLPStructure,
    role: str,
    source: ComponentSource,
    pool: BlobPool,
    seed: int,
    measure: Callable[[RowEmbedding], None],
) -> nn.Module:
    """One component from its source; ``measure`` gives a new embedding its statistics."""

    def make(identity: bool) -> nn.Module:
        made = build_component(structure, role, seed, identity=identity)
        if isinstance(made, RowEmbedding):
            measure(made)
        return made

    return component_of(
        role,
        source,
        pool,
        make=make,
        restore=lambda state: component_from_state(structure, role, state),
        resize=lambda state: resize_block(structure, role, state, seed),
    )

"""Paths over vectors put together (see ``paths.builder``), with the statistics that a new embedding takes of its task.

Legend: B samples, G numbers of a sample.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import torch
from torch import Tensor, nn

from evodevo.errors import UsageError
from evodevo.multitask.paths.builder import ComponentBuilder, Components, Read, State
from evodevo.multitask.paths.built import PathSamples
from evodevo.multitask.paths.mlp.model import MLPPath, RowEmbedding, resize_block
from evodevo.multitask.paths.mlp.spec import MLPStructure, path_work
from evodevo.tasks.base import SampleTask
from evodevo.tasks.inputs import InputSpec

MOST_MEASURED = 100_000
"""Training samples of which statistics are taken: of a larger task the first ones."""


class MLPBuilder(ComponentBuilder[MLPStructure]):
    """See ``ComponentBuilder``. A new embedding takes the mean and deviation of the task's training samples."""

    path = MLPPath

    def of_samples(
        self, structure: MLPStructure, role: str, seed: int, task: SampleTask | None, *, identity: bool
    ) -> nn.Module:
        made = self.path.component(structure, role, seed, identity=identity)
        if isinstance(made, RowEmbedding):
            if task is None:
                raise UsageError("an embedding takes the statistics of a task's samples, and this root has no task.")
            places = np.arange(min(task.count("train"), MOST_MEASURED))
            name = vector_input(task.inputs, structure.inputs)
            made.measure(torch.from_numpy(np.array(task.fetch("train", places)[name])))
        return made

    def resize(self, structure: MLPStructure, role: str, state: State, seed: int) -> dict[str, Tensor]:
        return resize_block(structure, role, state, seed)

    def flops(self, structure: MLPStructure) -> float:
        return float(path_work(structure).total)

    def read(self, structure: MLPStructure, components: Components) -> Read:
        return partial(read_vectors, structure)

    def reads(self, structure: MLPStructure, components: Components) -> str:
        return f"{structure.inputs} numbers"


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


BUILDER = MLPBuilder()

"""Paths with their weights: what ``PathKind.build`` and ``freeze`` give, and the samples of a batch that they read.

A path may be any module that answers logits; how it reads samples is its own matter, so that tasks of any modality may
have paths.

Legend: B samples.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from evodevo.errors import UsageError
from evodevo.multitask.paths.frozen import FrozenPath
from evodevo.multitask.paths.weights import count_parameters
from evodevo.multitask.training.augmentation import augmented
from evodevo.multitask.training.values import DataValues
from evodevo.tasks.base import SampleTask, Split
from evodevo.tasks.inputs import Batch, InputSpec
from evodevo.training.precision import Precision

Places = NDArray[np.int64]
Reader = Callable[[Places, int | None], Any]
"""Places of samples, and the training step where chance may change them -> what the model reads."""


class PathSamples:
    """Samples of a batch for all the paths of a model: fetched once, and randomly changed once.

    Source: docs/spec/munet.md#sub-path-inputs.

    Args:
        task: task of the samples.
        split: split of the task.
        places: indices of the samples.
        values: settings of the random changes, where there is a step.
        seed: seed of the random changes.
        step: training step; None leaves the samples unchanged.
    """

    def __init__(
        self, task: SampleTask, split: Split, places: Places, values: DataValues, seed: int, step: int | None
    ) -> None:
        self._task, self._split, self._places = task, split, places
        self._values, self._seed, self._step = values, seed, step

    @property
    def inputs(self) -> tuple[InputSpec, ...]:
        """Inputs of a sample of the task."""
        return self._task.inputs

    @cached_property
    def batch(self) -> Batch:
        """All inputs, as the task hands them out."""
        return self._task.fetch(self._split, self._places)

    @cached_property
    def images(self) -> list[Tensor]:
        """Numbers in [0, 255] of shape (n, channels, height, width), changed by chance at their own size.

        One batch of all, or where crops differ in size, one of each image.
        """
        raw = image_of(self._task, self.batch)
        if self._step is None or self._values.identity:
            return [torch.from_numpy(np.ascontiguousarray(raw)).permute(0, 3, 1, 2).float()]
        return augmented(raw, self._values, self._seed, self._step)


class BuiltPath:
    """A path with its weights, on its device.

    Args:
        model: Model that maps what a ``Reader`` returns to logits (B, C).
        components: Role -> component, of the path's own ones.
        flops: FLOPs of one sample.
        read: Function that turns samples into what the model reads, on any device.
        precision: Device and number format.
        factors: Role -> factor of its learning rate.
    """

    def __init__(
        self,
        model: nn.Module,
        components: Mapping[str, nn.Module],
        flops: float,
        read: Callable[[PathSamples], Any],
        precision: Precision,
        factors: Mapping[str, float] | None = None,
    ) -> None:
        self.model, self.components, self.flops = model.to(precision.device), components, flops
        self.factors: Mapping[str, float] = factors or {}
        self.precision = precision
        self._read = read

    def reader(self, task: SampleTask, split: Split, values: DataValues, seed: int) -> Reader:
        """The function by which samples of a split reach the model.

        Args:
            task: Task of the samples.
            split: Split of the task.
            values: Random changes of the samples of a training step.
            seed: Seed of these changes.
        """
        return lambda places, step: self.precision.place(
            self._read(PathSamples(task, split, places, values, seed, step))
        )

    @property
    def parameters(self) -> int:
        """Number of parameters of all components that a sample passes, those of other paths included."""
        return sum(map(count_parameters, self.components.values()))


@dataclass(frozen=True)
class FrozenPart:
    """A published path inside another model.

    Attributes:
        path: answers logits (B, C), or headless its representation (B, h); it reads the entry ``path.reads``.
        read: samples -> that entry; on the CPU.
        structure, preparation: all facts on which its answer depends besides its weights, JSON.
        width: h.
        flops: FLOPs of one sample.
    """

    path: FrozenPath
    read: Callable[[PathSamples], Any]
    structure: Mapping[str, Any]
    preparation: Mapping[str, Any]
    width: int
    flops: float


def image_of(task: SampleTask, batch: Batch) -> NDArray[np.uint8]:
    """The images (B, height, width, channels) in a batch of a task.

    Raises:
        UsageError: its samples hold no image, or more than one.
    """
    names = [spec.name for spec in task.inputs if spec.modality == "image"]
    if len(names) != 1:
        given = ", ".join(f"{spec.name} ({spec.modality})" for spec in task.inputs)
        raise UsageError(f"a vision path reads one image per sample; the samples of this task hold {given}.")
    images: NDArray[np.uint8] = batch[names[0]]
    return images

"""Kinds of paths at work: how each is put together from components, and what it makes of a task's samples.

A kind is a row of ``KINDS``: request, pool and task -> ``BuiltPath``. What it builds may be any module that answers
logits; how it reads samples is its own matter, so that tasks of any modality may have paths.

Legend: B samples.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from evodevo.errors import UsageError
from evodevo.evaluation.path_parts import count_parameters
from evodevo.evaluation.path_settings import PathRequest
from evodevo.models.vision_path_input import read_images, resized, scaled, with_channels
from evodevo.registry import Registry, table
from evodevo.spaces.vision_path import VisionStructure
from evodevo.storage.blobs import BlobPool
from evodevo.tasks.base import SampleTask, Split
from evodevo.training.path_augmentation import augmented
from evodevo.training.path_values import DataValues
from evodevo.training.precision import Precision

Places = NDArray[np.int64]
Reader = Callable[[Places, int | None], Any]
"""Places of samples, and the training step where chance may change them -> what the model reads."""


class BuiltPath(ABC):
    """A path with its weights, on its device.

    Attributes:
        model: what a ``Reader`` gives -> logits (B, C).
        components: role -> component, of its own ones.
        factors: role -> factor of its learning rate.
        flops: of one sample.
    """

    model: nn.Module
    components: Mapping[str, nn.Module]
    factors: Mapping[str, float] = {}
    flops: float

    @abstractmethod
    def reader(self, task: SampleTask, split: Split, values: DataValues, seed: int) -> Reader:
        """How samples of a split reach the model.

        Args:
            task: whose samples.
            split: of it.
            values: what chance may change, where a step is given.
            seed: of chance.
        """

    @property
    def parameters(self) -> int:
        """Of all that a sample passes, its own or not."""
        return count_parameters(self.model)


Builder = Callable[[PathRequest, BlobPool, SampleTask, Precision], BuiltPath]
KINDS: Registry[Builder] = table("kind of path", "evodevo.path_kinds")
KINDS.add("vision_path", "evodevo.evaluation.vision_path_kind:build_vision_path")
KINDS.add("multipath", "evodevo.evaluation.multipath_kind:build_multipath")


def images_of(task: SampleTask, split: Split, places: Places) -> NDArray[np.uint8]:
    """Images (B, height, width, channels) of a task.

    Raises:
        UsageError: its samples hold no image, or more than one.
    """
    names = [spec.name for spec in task.inputs if spec.modality == "image"]
    if len(names) != 1:
        told = ", ".join(f"{spec.name} ({spec.modality})" for spec in task.inputs)
        raise UsageError(f"a vision path reads one image per sample; the samples of this task hold {told}.")
    found: NDArray[np.uint8] = task.fetch(split, places)[names[0]]
    return found


def read_at(
    structures: Mapping[str, VisionStructure],
    images: NDArray[np.uint8],
    values: DataValues,
    seed: int,
    step: int | None,
) -> dict[str, Tensor]:
    """Images as each of several paths reads them: changed by chance once, at their own size, then resized for each.

    Args:
        structures: name -> of a path.
        images: (B, height, width, channels) bytes.
        values: what chance may change.
        seed: of chance.
        step: of training; None leaves the images as they are.

    Returns:
        Name -> (B, channels, S, S) in [-1, 1].
    """
    if step is None or values.identity:
        raw = torch.from_numpy(np.ascontiguousarray(images))
        return {name: read_images(one, raw) for name, one in structures.items()}
    views = augmented(images, values, seed, step)
    return {
        name: torch.cat([scaled(resized(with_channels(view, one.channels), one.image_size)) for view in views])
        for name, one in structures.items()
    }

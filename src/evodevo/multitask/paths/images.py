"""Images as paths read them, whatever kind of path: from bytes of any size, grey or in colour, to numbers in [-1, 1].

Tasks hand out uint8; the path makes three channels of one and resizes, so that a frozen path reads the samples of
another task (without augmentation; docs/spec/munet.md#augmentation).

Legend: B samples, S pixels of a side.
"""

from __future__ import annotations

from functools import partial
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional as F

from evodevo.errors import UsageError
from evodevo.multitask.paths.built import PathSamples
from evodevo.multitask.paths.dense import DenseInput


class ImageStructure(Protocol):
    """The part of a path's structure that says how it reads images.

    Attributes:
        image_size: height and width, in pixels.
        channels: 1 or 3.
        classes: classes of its head.
    """

    @property
    def image_size(self) -> int: ...
    @property
    def channels(self) -> int: ...
    @property
    def classes(self) -> int: ...


def image_input(structure: ImageStructure) -> DenseInput:
    """The input of an exported path."""
    words = "(B, height, width, 1 or 3) of bytes, 0 to 255"
    return DenseInput(structure, partial(read_images, structure), "images", words)


def check_images(structure: ImageStructure, images: Tensor) -> None:
    """Check that images are of the size that a path reads.

    Raises:
        UsageError: they are not of shape (B, channels, S, S).
    """
    wanted = (structure.channels, structure.image_size, structure.image_size)
    if tuple(images.shape[1:]) != wanted:
        raise UsageError(f"this path reads images of shape {wanted}; {tuple(images.shape[1:])} were given.")


def read_samples(structure: ImageStructure, samples: PathSamples) -> Tensor:
    """Input of a path from samples (B, channels, S, S), in [-1, 1]."""
    return torch.cat([prepare_images(structure, view) for view in samples.images])


def read_images(structure: ImageStructure, raw: Tensor) -> Tensor:
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


def prepare_images(structure: ImageStructure, images: Tensor) -> Tensor:
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

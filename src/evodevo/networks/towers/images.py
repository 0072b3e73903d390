"""The preparation of images for a vision tower: size, and mean and standard deviation of the channels.

Legend: B images.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from evodevo import files
from evodevo.errors import DataError
from evodevo.operators.pretrained.spec import read_object, root_of

IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
_BICUBIC = 3  # pillow's number


@dataclass(frozen=True)
class Preparation:
    """The preparation of an image from its bytes.

    Attributes:
        size: height and width after resizing, or a single number for the shorter edge.
        crop: height and width of the middle that is kept, or None.
        bicubic: resizing is bicubic, else bilinear.
        mean, std: mean and standard deviation of each channel, for numbers in [0, 1].
    """

    size: tuple[int, ...]
    crop: tuple[int, int] | None = None
    bicubic: bool = False
    mean: tuple[float, ...] = IMAGENET_MEAN
    std: tuple[float, ...] = IMAGENET_STD

    def raw(self) -> Preparation:
        """The same sizes, and pixels as they are stored: from 0 to 255."""
        return replace(self, mean=(0.0,), std=(1 / 255,))


def read_preparation(folder: Path, image: tuple[int, int]) -> Preparation:
    """From preprocessor_config.json; without one the image's size and the statistics of ImageNet.

    Raises:
        DataError: a file that makes no sense.
    """
    file = folder / "preprocessor_config.json"
    if not files.regular(file, root_of(folder)):
        return Preparation(image)
    values = read_object(file, folder)
    crop = values.get("crop_size") if values.get("do_center_crop") else None
    cropped = None if crop is None else _size(crop, file)
    size = values.get("size", list(image)) if values.get("do_resize", True) else list(image)
    if type(size) is int and crop is not None:  # older files of models that crop mean the shorter edge
        size = {"shortest_edge": size}
    normalised = values.get("do_normalize", True)
    return Preparation(
        _size(size, file),
        None if cropped is None else (cropped[0], cropped[-1]),
        values.get("resample", 2) == _BICUBIC,
        _numbers(values.get("image_mean", list(IMAGENET_MEAN)), file) if normalised else (0.0,),
        _numbers(values.get("image_std", list(IMAGENET_STD)), file, positive=True) if normalised else (1.0,),
    )


def prepare(raw: Tensor, how: Preparation, image: tuple[int, int], channels: int, dtype: torch.dtype) -> Tensor:
    """Images (B, height, width, channels) of bytes -> (B, channels, height, width) of the tower."""
    pixels = raw.permute(0, 3, 1, 2).to(dtype)
    size = how.size
    if len(size) == 1:
        shorter = min(pixels.shape[2:])
        size = tuple(int(size[0] * edge / shorter) for edge in pixels.shape[2:])
    pixels = _resized(pixels, (size[0], size[1]), how.bicubic)
    if how.crop is not None:
        high, wide = (min(edge, kept) for edge, kept in zip(pixels.shape[2:], how.crop, strict=True))
        top, left = (pixels.shape[2] - high) // 2, (pixels.shape[3] - wide) // 2
        pixels = pixels[:, :, top : top + high, left : left + wide]
    pixels = _resized(pixels, image, how.bicubic) / 255
    pixels = pixels.expand(-1, channels, -1, -1)
    mean, std = (pixels.new_tensor(numbers).view(1, -1, 1, 1) for numbers in (how.mean, how.std))
    return (pixels - mean) / std


def _resized(pixels: Tensor, size: tuple[int, int], bicubic: bool) -> Tensor:
    if tuple(pixels.shape[2:]) == size:
        return pixels
    mode = "bicubic" if bicubic else "bilinear"
    # To whole bytes, as the images were on which the tower was trained.
    return F.interpolate(pixels, size, mode=mode, antialias=True, align_corners=False).round().clamp(0, 255)


def _size(value: Any, file: Path) -> tuple[int, ...]:
    if isinstance(value, Mapping):
        value = [value["shortest_edge"]] if "shortest_edge" in value else [value.get("height"), value.get("width")]
    elif type(value) is int:
        value = [value, value]
    if not isinstance(value, list) or not all(type(item) is int and 1 <= item <= 1 << 14 for item in value):
        raise DataError(f"{file}: {str(value)[:80]!r} is no size of an image.")
    return tuple(value)


def _numbers(value: Any, file: Path, *, positive: bool = False) -> tuple[float, ...]:
    sensible = isinstance(value, list) and all(isinstance(item, int | float) for item in value) and len(value) in (1, 3)
    if not sensible or (positive and min(value) <= 0):
        raise DataError(f"{file}: {str(value)[:80]!r} are no statistics of channels.")
    return tuple(float(item) for item in value)

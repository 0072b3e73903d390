"""Chance in the preparation of training images: quality, flip, shift, crop, brightness, contrast, saturation, hue.

Source: docs/spec/munet.md#augmentation. Images are changed once, at their own size; every path resizes the result to
its own, so that all paths of a model see the same crop, flip and colour. What happens to an image follows from (seed,
step) and its place in the batch, and each kind of change has draws of its own: turning one on leaves the others as they
were.

Legend: B samples.
"""

from __future__ import annotations

import io
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from evodevo.errors import UsageError
from evodevo.multitask.training.values import DataValues
from evodevo.randomness import generator

_TRIES = 10
"""Boxes that are drawn before an image is shown whole."""


@dataclass(frozen=True)
class Draws:
    """Randomness of one step."""

    seed: int
    step: int

    def uniform(self, what: str, shape: tuple[int, ...], least: float, most: float) -> NDArray[np.float64]:
        """Numbers for one kind of change."""
        return generator(self.seed, self.step, f"augmentation/{what}").uniform(least, most, shape)


def augmented(images: NDArray[np.uint8], values: DataValues, seed: int, step: int) -> list[Tensor]:
    """The augmented images of a training step.

    Args:
        images: (B, height, width, 1 or 3) bytes.
        values: ranges of the random changes.
        seed, step: seed and step that determine the changes.

    Returns:
        Numbers in [0, 255] of shape (n, channels, height, width): one batch of all, or with crops, which differ in
        size, one of each image.

    Raises:
        UsageError: no such images.
    """
    if images.ndim != 4 or images.shape[3] not in (1, 3) or images.dtype != np.uint8:
        raise UsageError(
            "augmentation needs bytes of shape (samples, height, width, 1 or 3 channels); "
            f"{images.dtype} of shape {images.shape} were given."
        )
    draws = Draws(seed, step)
    if values.quality:
        images = _compressed(images, values.quality, draws)
    batch = torch.from_numpy(np.ascontiguousarray(images)).permute(0, 3, 1, 2).float()
    if values.flip:
        turned = torch.from_numpy(draws.uniform("flip", (len(batch),), 0, 1) < 0.5)
        batch = torch.where(turned.view(-1, 1, 1, 1), batch.flip(3), batch)
    if values.shift:
        batch = _shifted(batch, values.shift, draws)
    colours = _colours(len(batch), values, draws)
    if values.area == 1:
        return [_coloured(batch, colours)]
    boxes = _boxes(len(batch), batch.shape[2], batch.shape[3], values, draws)
    return [
        _coloured(
            batch[row : row + 1, :, top : top + height, left : left + width],
            {name: own[row : row + 1] for name, own in colours.items()},
        )
        for row, (top, left, height, width) in enumerate(boxes)
    ]


def _compressed(images: NDArray[np.uint8], delta: float, draws: Draws) -> NDArray[np.uint8]:
    from PIL import Image

    result = np.empty_like(images)
    for row, quality in enumerate(draws.uniform("quality", (len(images),), 100 * (1 - delta), 100)):
        picture = Image.fromarray(images[row].squeeze(-1) if images.shape[3] == 1 else images[row])
        with io.BytesIO() as file:
            picture.save(file, "JPEG", quality=round(quality))
            with Image.open(file) as again:
                result[row] = np.asarray(again).reshape(images.shape[1:])
    return result


def _shifted(images: Tensor, share: float, draws: Draws) -> Tensor:
    """Images (B, channels, height, width), each moved by whole pixels, up to a share of either side; edges repeat."""
    sides = images.shape[2:]
    moved = np.rint(draws.uniform("shift", (len(images), 2), -share, share) * sides).astype(np.int64)
    rows, columns = (
        torch.from_numpy((np.arange(side) + moved[:, axis, None]).clip(0, side - 1)) for axis, side in enumerate(sides)
    )
    number = torch.arange(len(images))[:, None, None]
    return images.permute(0, 2, 3, 1)[number, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)


def _boxes(count: int, height: int, width: int, values: DataValues, draws: Draws) -> list[tuple[int, int, int, int]]:
    """(top, left, height, width) of each image's crop; the first of some boxes that fits, or all of it."""
    # All tries are drawn at once, so that the draws of an image do not depend on how often others failed.
    area = draws.uniform("crop area", (count, _TRIES), values.area, 1) * height * width
    aspect = draws.uniform("crop aspect", (count, _TRIES), values.aspect, 1 / values.aspect)
    corner = draws.uniform("crop corner", (count, 2), 0, 1)
    heights = np.maximum(1, np.rint(np.sqrt(area / aspect))).astype(int)
    widths = np.maximum(1, np.rint(np.sqrt(area * aspect))).astype(int)
    fits = (heights <= height) & (widths <= width)
    boxes = []
    for row in range(count):
        if not fits[row].any():
            boxes.append((0, 0, height, width))
            continue
        chosen = int(fits[row].argmax())
        high, wide = int(heights[row, chosen]), int(widths[row, chosen])
        top, left = int(corner[row, 0] * (height - high + 1)), int(corner[row, 1] * (width - wide + 1))
        boxes.append((top, left, high, wide))
    return boxes


def _colours(count: int, values: DataValues, draws: Draws) -> dict[str, Tensor]:
    """Kind of change -> how much of it each image gets (count, 1, 1, 1)."""
    deltas = {name: getattr(values, name) for name in ("brightness", "contrast", "saturation", "hue")}
    return {
        name: torch.from_numpy(draws.uniform(name, (count, 1, 1, 1), -delta, delta)).float()
        for name, delta in deltas.items()
        if delta
    }


def _coloured(images: Tensor, colours: dict[str, Tensor]) -> Tensor:
    """Numbers in [0, 255] -> the same, with other colours."""
    if not colours:
        return images
    x = images / 255
    if "brightness" in colours:
        x = (x + colours["brightness"]).clamp(0, 1)
    if "contrast" in colours:
        mean = x.mean((2, 3), keepdim=True)
        x = ((x - mean) * (1 + colours["contrast"]) + mean).clamp(0, 1)
    if images.shape[1] == 3:  # grey has neither
        if "saturation" in colours:
            x = _saturated(x, 1 + colours["saturation"])
        if "hue" in colours:
            x = _turned(x, colours["hue"])
    return x * 255


def _saturated(x: Tensor, factor: Tensor) -> Tensor:
    """Saturation times a factor, at most 1; brightness (the largest channel) stays."""
    largest, smallest = x.amax(1, keepdim=True), x.amin(1, keepdim=True)
    spread = largest - smallest
    # Saturation is spread / largest; all distances to the largest channel grow alike.
    most = torch.where(spread > 0, largest / spread.clamp(min=1e-12), torch.ones_like(spread))
    return (largest - (largest - x) * torch.minimum(factor.expand_as(most), most)).clamp(0, 1)


def _turned(x: Tensor, turn: Tensor) -> Tensor:
    """Hue plus a part of a turn."""
    red, green, blue = x.unbind(1)
    largest, smallest = x.amax(1), x.amin(1)
    spread = largest - smallest
    # Grey has no hue: its spread is 0, and any hue gives the same colour.
    safe = spread.clamp(min=1e-12)
    sixth = torch.where(
        largest == red,
        (green - blue) / safe,
        torch.where(largest == green, 2 + (blue - red) / safe, 4 + (red - green) / safe),
    )
    hue = (sixth / 6 + turn.squeeze(1)) % 1 * 6
    channels = []
    for offset in (5, 3, 1):
        place = (offset + hue) % 6
        channels.append(largest - spread * torch.minimum(place, 4 - place).clamp(0, 1))
    return torch.stack(channels, 1)

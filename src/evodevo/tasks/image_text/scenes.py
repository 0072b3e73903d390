"""Generated pictures of one to three equal shapes, optionally with a strip of marks below that hint at genres.

Shapes: N pictures, A attributes, G genres; a picture is (side, side, 3) uint8.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from evodevo.tasks.images.pixels import Pixels

VALUES: dict[str, tuple[str, ...]] = {
    "colour": ("red", "green", "blue", "yellow", "purple", "orange"),
    "shape": ("circle", "square", "triangle", "cross"),
    "count": ("one", "two", "three"),
    "size": ("small", "large"),
}
"""Attribute of a scene -> its values in order."""
GENRES = ("comedy", "crime", "fantasy", "romance", "war", "western")
"""Genres; the mark of genre g has the g-th colour and is the g-th from the left."""
SMALLEST_SIDE = 24

_COLOURS = np.asarray(
    [(214, 39, 40), (44, 160, 44), (31, 90, 220), (240, 210, 20), (140, 60, 190), (255, 127, 14)], dtype=np.float32
)
_BACKGROUND, _GRAIN = 232.0, 6.0
_SUPERSAMPLING = 8
_ACROSS = 2  # cells for shapes in a row, and rows


def draw(
    rng: np.random.Generator, attributes: NDArray[np.int64], side: int, marks: NDArray[np.bool_] | None = None
) -> Pixels:
    """Pictures of scenes; the positions of the shapes, their shade and the grain of the background are random.

    Args:
        rng: Generator of the random parts.
        attributes: Index of the value of each attribute, in the order of ``VALUES``, (N, A).
        side: Height and width in pixels, at least ``SMALLEST_SIDE``.
        marks: Whether the strip has a mark of each genre, (N, G); None = no strip.

    Returns:
        Pictures, (N, side, side, 3).
    """
    count = len(attributes)
    strip = 0 if marks is None else side // len(GENRES)
    high, wide = (side - strip) // _ACROSS, side // _ACROSS
    pictures = rng.normal(_BACKGROUND, _GRAIN, (count, side, side, 3)).astype(np.float32)
    shades = rng.uniform(0.85, 1.0, count).astype(np.float32)
    cells = np.argsort(rng.random((count, _ACROSS * _ACROSS)), axis=1)
    offsets = rng.random((count, _ACROSS * _ACROSS, 2))
    for picture, (colour, shape, copies, size), shade, order, offset in zip(
        pictures, attributes.tolist(), shades, cells.tolist(), offsets, strict=True
    ):
        sprite = _sprite(shape, (min(high, wide) - 1) * (5 + 4 * size) // 9)
        tall = len(sprite)
        for cell, (down, right) in zip(order[: copies + 1], offset, strict=False):
            # A sprite is narrower than its cell, and ends before it: shapes never touch, so that they can be counted.
            top = cell // _ACROSS * high + int(down * (high - tall))
            left = cell % _ACROSS * wide + int(right * (wide - tall))
            part = picture[top : top + tall, left : left + tall]
            part += sprite * (_COLOURS[colour] * shade - part)
    if marks is not None:
        _hint(pictures[:, side - strip :], marks, strip)
    return np.rint(pictures).clip(0, 255).astype(np.uint8)


def _hint(strips: NDArray[np.float32], marks: NDArray[np.bool_], width: int) -> None:
    """Draw a square per genre, each at a fixed position, so that a linear model can read it too."""
    strips[:, 0] -= 40  # a line between the scene and the strip
    for genre, colour in enumerate(_COLOURS):
        square = strips[:, 1:, genre * width : (genre + 1) * width - 1]
        square[marks[:, genre]] = colour


@lru_cache(maxsize=64)
def _sprite(shape: int, width: int) -> NDArray[np.float32]:
    """Fraction of each pixel that the shape covers, 0 to 1. Shape ``(width, width, 1)``."""
    from PIL import Image, ImageDraw

    big = width * _SUPERSAMPLING
    picture = Image.new("L", (big, big))
    pen = ImageDraw.Draw(picture)
    match VALUES["shape"][shape]:
        case "circle":
            pen.ellipse((0, 0, big - 1, big - 1), fill=255)
        case "square":
            pen.rectangle((0, 0, big - 1, big - 1), fill=255)
        case "triangle":
            pen.polygon([(big / 2, 0), (big - 1, big - 1), (0, big - 1)], fill=255)
        case _:
            pen.rectangle((big * 0.36, 0, big * 0.64, big - 1), fill=255)
            pen.rectangle((0, big * 0.36, big - 1, big * 0.64), fill=255)
    small = picture.resize((width, width), Image.Resampling.BOX)
    covered: NDArray[np.float32] = np.asarray(small, dtype=np.float32)[..., None] / np.float32(255)
    return covered

"""Images as a network reads them: mean and deviation of the training images, and shifts of a few pixels.

Legend: n samples, B samples of a batch.
"""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import NDArray

from evodevo.errors import UsageError
from evodevo.settings import Settings

IMAGE = "image"
MOST_SHIFT = 2
PIXELS_PER_SHIFT = 8
"""An image is shifted by one pixel for so many of its height or width, and by ``MOST_SHIFT`` at most."""
_SMALLEST = 1e-3
_SAMPLED = 4096


class ImageReading(Settings):
    """What is known of the training images.

    Attributes:
        shape: (height, width, channels).
        mean, deviation: Mean and standard deviation of each channel, 0 to 1.
    """

    shape: tuple[int, int, int]
    mean: tuple[float, ...]
    deviation: tuple[float, ...]

    @classmethod
    def of(cls, images: NDArray[np.uint8], present: NDArray[np.bool_]) -> Self | None:
        """Measure training images (n, height, width, channels); None where none is present."""
        if not present.any():
            return None
        there = images[np.flatnonzero(present)[:_SAMPLED]].astype(np.float32) / 255
        height, width, channels = images.shape[1:]
        mean, deviation = there.mean((0, 1, 2)).tolist(), there.std((0, 1, 2)).clip(_SMALLEST).tolist()
        return cls(shape=(height, width, channels), mean=tuple(mean), deviation=tuple(deviation))

    @property
    def shift(self) -> int:
        """Largest shift in pixels."""
        return min(MOST_SHIFT, min(self.shape[:2]) // PIXELS_PER_SHIFT)

    def check(self, images: NDArray[np.uint8]) -> None:
        """
        Raises:
            UsageError: Images of another shape or type.
        """
        if images.shape[1:] != self.shape or images.dtype != np.uint8:
            raise UsageError(
                f"images are {images.dtype} of {images.shape[1:]}; the networks were trained on uint8 of {self.shape}."
            )

    def shifted(self, images: NDArray[np.uint8], rng: np.random.Generator) -> NDArray[np.uint8]:
        """Each image (B, height, width, channels) moved by up to ``shift`` pixels; the border is repeated."""
        if not self.shift:
            return images
        height, width = images.shape[1:3]
        down, right = rng.integers(-self.shift, self.shift, (2, len(images), 1), endpoint=True)
        rows = (np.arange(height) + down).clip(0, height - 1)
        columns = (np.arange(width) + right).clip(0, width - 1)
        moved: NDArray[np.uint8] = images[np.arange(len(images))[:, None, None], rows[:, :, None], columns[:, None, :]]
        return moved

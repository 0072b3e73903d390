"""Images as rows of numbers.

Legend: n images, P pixels times channels.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from evodevo.tasks.images.pixels import Pixels, resized


def flat(images: Pixels, side: int) -> NDArray[np.float64]:
    """Brightness 0 to 1 of all pixels, (n, P).

    Args:
        images: (n, height, width, channels).
        side: Largest height and width; larger images are made smaller first.
    """
    count, height, width, _ = images.shape
    shrink = side / max(height, width)
    if shrink < 1:
        size = max(1, round(height * shrink)), max(1, round(width * shrink))
        images = np.stack([resized(image, *size) for image in images]) if count else images[:, : size[0], : size[1]]
    return images.reshape(count, -1).astype(np.float64) / 255

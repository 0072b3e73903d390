"""Features of texts and images that are kept, so that nothing is read twice, and their place among a row's numbers.

Legend: n samples, D numbers of a feature vector.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from evodevo.tasks.rows.samples import Samples

MOST_KEPT_BYTES = 512 << 20
"""Bytes of features of one tower that are kept in memory."""
Progress = Callable[[int, int], None]
"""Called after each batch with the samples that are done, and all of them. It may raise, which ends the reading."""
Shape = tuple[int, int, int]
"""Height, width and channels of images."""


class Reads(Protocol):
    """Something that makes a vector of each text or image.

    Attributes:
        width: D.
    """

    @property
    def width(self) -> int: ...

    def read(self, some: Any, progress: Progress | None = None) -> NDArray[np.float32]: ...


class FeatureMemory:
    """A loaded reader with the features of what it has read in this process."""

    def __init__(self, reader: Reads) -> None:
        self._reader = reader
        self._known: dict[str, NDArray[np.float32]] = {}

    def read(
        self, names: Sequence[str], things: Sequence[str] | NDArray[Any], progress: Progress | None
    ) -> NDArray[np.float64]:
        """Features (n, D) of things, each known by its name."""
        new = {name: place for place, name in enumerate(names) if name not in self._known}
        wanted = list(new.values())
        some = things[wanted] if isinstance(things, np.ndarray) else [things[place] for place in wanted]
        if wanted:
            if (len(self._known) + len(wanted)) * self._reader.width * 4 > MOST_KEPT_BYTES:
                known = {name: self._known[name] for name in names if name in self._known}
                self._known = known
            self._known |= dict(zip(new, self._reader.read(some, progress), strict=True))
        rows = [self._known[name] for name in names]
        return np.stack(rows).astype(np.float64) if rows else np.zeros((0, self._reader.width))


def of_images(
    samples: Samples, memory: Callable[[Shape], FeatureMemory], progress: Progress | None
) -> list[NDArray[np.float64]]:
    """Features (n, D) of each column of images; those of images that are not there are missing.

    Args:
        samples: The samples.
        memory: The memory for images of a shape.
        progress: Called with the progress.
    """
    vectors = []
    for images, present in zip(samples.images, samples.present, strict=True):
        names = [hashlib.blake2b(image.tobytes(), digest_size=16).hexdigest() for image in images]
        found = memory((images.shape[1], images.shape[2], images.shape[3])).read(names, images, progress)
        vectors.append(np.where(present[:, None], found, np.nan))
    return vectors


def with_numbers(samples: Samples, vectors: Sequence[NDArray[np.float64]], without: Mapping[str, Any]) -> Samples:
    """The samples with further numbers.

    Args:
        samples: Samples (n, F).
        vectors: Numbers (n, D), added behind the others.
        without: Attributes of the samples that are replaced: texts or images that became numbers.
    """
    numbers = np.concatenate([samples.numbers, *vectors], axis=1)
    rest = {"texts": samples.texts, "images": samples.images, "present": samples.present, **without}
    return Samples(samples.count, numbers, samples.codes, **rest)

"""Samples of a race of networks, as arrays and texts.

Legend: n samples, F columns of numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evodevo.errors import UsageError


@dataclass(frozen=True)
class NetworkSamples:
    """Samples with at least one kind of input.

    Attributes:
        images: (n, height, width, channels), uint8; None where the data have none.
        images_present: (n,), false where a sample lacks its image; None where all have one.
        texts: n texts, "" where a sample lacks its text; None where the data have none.
        vectors: (n, F) numbers, NaN where one is missing; None where the data have none.

    Raises:
        UsageError: No input, or inputs of different numbers of samples.
    """

    images: NDArray[np.uint8] | None = None
    images_present: NDArray[np.bool_] | None = None
    texts: Sequence[str] | None = None
    vectors: NDArray[np.float64] | None = None

    def __post_init__(self) -> None:
        lengths = {len(part) for part in self._parts() if part is not None}
        if not lengths:
            raise UsageError("samples need at least one of images, texts and vectors.")
        if len(lengths) > 1:
            raise UsageError(f"images, texts and vectors need equal numbers of samples; they have {sorted(lengths)}.")

    def __len__(self) -> int:
        return next(len(part) for part in self._parts() if part is not None)

    def take(self, rows: NDArray[np.int64]) -> NetworkSamples:
        """The samples at these rows, in this order."""
        return NetworkSamples(
            images=None if self.images is None else self.images[rows],
            images_present=None if self.images_present is None else self.images_present[rows],
            texts=None if self.texts is None else [self.texts[row] for row in rows.tolist()],
            vectors=None if self.vectors is None else self.vectors[rows],
        )

    def _parts(self) -> tuple[Sequence[object] | NDArray[np.generic] | None, ...]:
        return self.images, self.images_present, self.texts, self.vectors

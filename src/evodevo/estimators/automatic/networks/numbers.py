"""Columns of numbers as a network reads them: scaled by quantiles, with an indicator where numbers were missing.

Legend: n samples, F columns as given, G columns that a network reads.
"""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import NDArray

from evodevo.errors import UsageError
from evodevo.settings import Settings

VECTORS = "vectors"
BINS = 24
"""Most intervals of a column, see ``NumberReading.edges``."""
_BOUND = 3.0
"""Scaled numbers stay below this in magnitude; see ``NumberReading.read``."""
_HUGE = 1e30


class NumberReading(Settings):
    """What is known of the training columns.

    Attributes:
        centre: Median of each column, (F,).
        scale: Factor of each column: 1 / (distance of the quartiles), 2 / (range) where they are equal.
        indicated: Columns for which an indicator says where a number is missing.
        edges: Quantiles of each column that is read, (G,), in scaled numbers, increasing; at least two.
    """

    centre: tuple[float, ...]
    scale: tuple[float, ...]
    indicated: tuple[int, ...]
    edges: tuple[tuple[float, ...], ...]

    @classmethod
    def of(cls, vectors: NDArray[np.float64]) -> Self | None:
        """Measure training columns (n, F); None where there is none."""
        if not vectors.shape[1]:
            return None
        finite = _finite(vectors)
        columns = [column[~np.isnan(column)] for column in finite.T]
        known = [column if len(column) else np.zeros(1) for column in columns]
        missing = np.isnan(finite)
        plain = cls(
            centre=tuple(float(np.median(column)) for column in known),
            scale=tuple(_scale(column) for column in known),
            indicated=tuple(np.flatnonzero(missing.any(0) & ~missing.all(0)).tolist()),
            edges=(),
        )
        return plain.model_copy(update={"edges": tuple(_edges(column) for column in plain.read(vectors).T)})

    @property
    def size(self) -> int:
        """G."""
        return len(self.centre) + len(self.indicated)

    def read(self, vectors: NDArray[np.float64]) -> NDArray[np.float32]:
        """Columns (n, F) -> (n, G). Medians replace missing numbers; far ones are pulled in, x / sqrt(1 + (x / 3)^2).

        Source: Holzmüller, Grinsztajn, Steinwart 2024, "Better by default" (robust scaling and smooth clipping).

        Raises:
            UsageError: Another number of columns.
        """
        if vectors.shape[1] != len(self.centre):
            raise UsageError(f"there are {vectors.shape[1]} numbers; the networks were trained on {len(self.centre)}.")
        finite = _finite(vectors)
        missing = np.isnan(finite)
        centre = np.array(self.centre)
        x = (np.where(missing, centre, finite) - centre) * np.array(self.scale)
        x = x.clip(-_HUGE, _HUGE)
        x = x / np.sqrt(1 + (x / _BOUND) ** 2)
        return np.concatenate([x, missing[:, list(self.indicated)]], 1).astype(np.float32)


def _finite(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(vectors, np.float64).clip(-_HUGE, _HUGE)


def _scale(column: NDArray[np.float64]) -> float:
    low, high = np.quantile(column, (0.25, 0.75))
    if high > low:
        return float(1 / (high - low))
    span = float(column.max() - column.min())
    return 2 / span if span > 0 else 1.0


def _edges(column: NDArray[np.float32]) -> tuple[float, ...]:
    edges = np.unique(np.quantile(column.astype(np.float64), np.linspace(0, 1, BINS + 1)))
    return tuple(edges.tolist()) if len(edges) > 1 else (float(edges[0]), float(edges[0]) + 1)

"""One number for each pair of modules, by their ids.

Legend: N modules.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Pairs:
    """A symmetric table of numbers.

    Attributes:
        ids: Ids of the modules.
        values: Numbers, (N, N), symmetric.
    """

    ids: tuple[str, ...]
    values: NDArray[np.float64]

    @classmethod
    def of_each(cls, ids: Sequence[str], value: Callable[[str, str], float], own: float = 0.0) -> Pairs:
        """A table from a symmetric function, called once for each pair; ``own`` is the value on the diagonal."""
        values = np.full((len(ids), len(ids)), own, np.float64)
        for row in range(len(ids)):
            for column in range(row):
                values[row, column] = values[column, row] = value(ids[row], ids[column])
        return cls(tuple(ids), values)

    def of(self, a: str, b: str) -> float:
        """The number for two modules."""
        return float(self.values[self.ids.index(a), self.ids.index(b)])

    def mean(self) -> float:
        """Mean over all N^2 entries, the diagonal included, as in eq. 19."""
        return float(self.values.mean())

    def mean_of_others(self) -> dict[str, float]:
        """Mean over the other modules by id; 0 where there is none."""
        count = len(self.ids)
        sums = self.values.sum(1) - self.values.diagonal()
        return {name: float(total) / max(count - 1, 1) for name, total in zip(self.ids, sums, strict=True)}

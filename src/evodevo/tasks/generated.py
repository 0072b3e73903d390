"""What tasks share whose samples are generated: sizes of splits, and which split a sample belongs to.

The split follows from a fingerprint of the content, so that nothing can stand in two splits, whatever is drawn.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from evodevo.settings import Settings
from evodevo.tasks.base import Split

# Of 16 equal shares of all fingerprints, these belong to the held-out splits; the other 12 to training.
_SHARES: dict[Split, tuple[int, int]] = {"validation": (0, 2), "test": (2, 4), "train": (4, 16)}

RULE = "by content: a fingerprint of it decides, 12/16 train, 2/16 validation, 2/16 test"


class SplitSizes(Settings):
    """How many samples each split has."""

    train: int = Field(default=20_000, ge=1, le=10_000_000)
    validation: int = Field(default=2_000, ge=1, le=1_000_000)
    test: int = Field(default=2_000, ge=1, le=1_000_000)

    def of(self, split: Split) -> int:
        """The size of one split."""
        return {"train": self.train, "validation": self.validation, "test": self.test}[split]


def mix(codes: NDArray[Any]) -> NDArray[np.uint64]:
    """Integers to well-spread 64-bit numbers, one to one, elementwise (the finaliser of SplitMix64, Steele 2014)."""
    z = codes.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: NDArray[np.uint64] = z ^ (z >> np.uint64(31))
    return mixed


def belongs(fingerprints: NDArray[np.uint64], split: Split) -> NDArray[np.bool_]:
    """Whether a sample of this fingerprint belongs to the split. Same shape as the fingerprints."""
    share = mix(fingerprints) >> np.uint64(60)
    low, high = _SHARES[split]
    inside: NDArray[np.bool_] = (share >= low) & (share < high)
    return inside

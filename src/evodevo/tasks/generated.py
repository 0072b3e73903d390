"""Sizes of splits and assignment of samples to splits, shared by the tasks with generated samples.

The split is a function of a fingerprint of the content, so that no content can be in two splits, whatever is drawn.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from evodevo.settings import Settings
from evodevo.tasks.base import Split

# Fingerprints are divided into 16 equal shares; each split owns those from the first number up to the second.
_SHARES: dict[Split, tuple[int, int]] = {"validation": (0, 2), "test": (2, 4), "train": (4, 16)}

RULE = "by content: a fingerprint of it decides, 12/16 train, 2/16 validation, 2/16 test"


class SplitSizes(Settings):
    """Numbers of samples in the splits."""

    train: int = Field(default=20_000, ge=1, le=10_000_000, description="number of training samples")
    validation: int = Field(default=2_000, ge=1, le=1_000_000, description="number of validation samples")
    test: int = Field(default=2_000, ge=1, le=1_000_000, description="number of test samples")

    def of(self, split: Split) -> int:
        """Number of samples in a split."""
        return {"train": self.train, "validation": self.validation, "test": self.test}[split]


def mix(codes: NDArray[Any]) -> NDArray[np.uint64]:
    """Integers to well-spread 64-bit numbers, one to one, elementwise (the finaliser of SplitMix64, Steele 2014)."""
    z = codes.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: NDArray[np.uint64] = z ^ (z >> np.uint64(31))
    return mixed


def belongs(fingerprints: NDArray[np.uint64], split: Split) -> NDArray[np.bool_]:
    """Whether a sample with each fingerprint belongs to the split. Same shape as the fingerprints."""
    share = mix(fingerprints) >> np.uint64(60)
    low, high = _SHARES[split]
    inside: NDArray[np.bool_] = (share >= low) & (share < high)
    return inside

"""What a task hands out: inputs by name, and batches of arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from numpy.typing import NDArray

Modality = Literal["tokens", "image", "vector", "features"]
Batch = Mapping[str, NDArray[Any]]
"""Samples as arrays, the first axis of each of length B.

- ``NAME`` of an input: tokens (B, L) integers; image (B, height, width, channels) uint8; vector (B, size) float32;
  features (B, L, size) float32, what an extractor made of a sample before.
- ``NAME/mask`` of an input of tokens or features: (B, L), true at real ones; absent where all are.
- ``NAME/present`` of an input: (B,), false where a sample lacks that modality; absent where all have it.
- ``NAME/origin`` of an input of features: (B,) integers, equal where what the features were made from is equal.
- ``matched``: (B,), true where image and text belong together, as a photograph and its caption do and a question does
  not; absent where all do, or where an output ``match`` says so.
- ``NAME/target`` of an output: class (B,) integers; labels (B, size) float32 of 0 and 1; tokens (B, L) integers.
  -1 (for labels NaN) is no target: that entry counts in no loss and no metric.
- ``NAME/position`` of an output of tokens: (B,), where the one answer that is asked for is predicted; absent where all
  tokens are asked for alike.
"""


@dataclass(frozen=True)
class InputSpec:
    """One input of a task.

    Attributes:
        name: key in a batch.
        modality: tokens, image, vector or features.
        length: tokens or features at most.
        vocabulary: number of token ids.
        height, width, channels: of an image.
        size: of a vector, or of each feature.
    """

    name: str
    modality: Modality
    length: int = 0
    vocabulary: int = 0
    height: int = 0
    width: int = 0
    channels: int = 0
    size: int = 0

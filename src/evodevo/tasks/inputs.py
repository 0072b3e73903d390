"""Inputs of a task by name, and batches of arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from numpy.typing import NDArray

Modality = Literal["tokens", "image", "vector", "features"]
Batch = Mapping[str, NDArray[Any]]
"""Samples as arrays; the first axis of each has length B.

- ``NAME`` of an input: tokens (B, L) integers; image (B, height, width, channels) uint8; vector (B, size) float32;
  features (B, L, size) float32, which a frozen extractor computed from the sample.
- ``NAME/mask`` of an input of tokens or features: (B, L), true except at padding; absent where there is no padding.
- ``NAME/present`` of an input: (B,), false where a sample lacks that modality; absent where all have it.
- ``NAME/origin`` of an input of features: (B,) integers, equal where the extractor's inputs are equal.
- ``matched``: (B,), true where image and text belong together (a photograph and its caption; not an image and a
  question); absent where all do, or where an output ``match`` asks for it.
- ``NAME/target`` of an output: class (B,) integers; labels (B, size) float32 of 0 and 1; tokens (B, L) integers.
  -1 (for labels NaN) is no target: that entry is ignored in losses and metrics.
- ``NAME/position`` of an output of tokens: (B,), the position at which the only relevant answer is predicted; absent
  where all tokens are targets alike.
"""


@dataclass(frozen=True)
class InputSpec:
    """One input of a task.

    Attributes:
        name: Key in a batch.
        modality: Kind of the input: tokens, image, vector or features.
        length: Largest number of tokens or features; 0 for images and vectors.
        vocabulary: Number of token ids; 0 without tokens.
        height: Height of an image in pixels.
        width: Width of an image in pixels.
        channels: Number of channels of an image, 1 or 3.
        size: Number of entries of a vector, or of each feature.
    """

    name: str
    modality: Modality
    length: int = 0
    vocabulary: int = 0
    height: int = 0
    width: int = 0
    channels: int = 0
    size: int = 0

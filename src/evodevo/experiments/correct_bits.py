"""The share of each sample that a network answered rightly, packed into a short text, so that two networks can be
compared in pairs.

No torch here: the coordinator reads what workers packed.
"""

from __future__ import annotations

import base64
import binascii
import zlib

import numpy as np
from numpy.typing import NDArray

from evodevo.errors import UnsafeFileError

_STEPS = 254
_UNKNOWN = 255
MOST = 1 << 24
"""Samples at most."""


def pack(right: NDArray[np.float64]) -> str:
    """Shares in [0, 1], NaN where a sample had no target, as text; a share keeps 1/254."""
    known = ~np.isnan(right)
    steps = np.full(len(right), _UNKNOWN, dtype=np.uint8)
    steps[known] = np.rint(right[known] * _STEPS).astype(np.uint8)
    return base64.b64encode(zlib.compress(steps.tobytes(), 9)).decode("ascii")


def unpack(text: str) -> NDArray[np.float64]:
    """The shares that ``pack`` was given.

    Raises:
        UnsafeFileError: no such text, or more than 16 million samples.
    """
    try:
        reader = zlib.decompressobj()
        data = reader.decompress(base64.b64decode(text, validate=True), MOST)
    except (binascii.Error, ValueError, zlib.error) as error:
        raise UnsafeFileError(f"not a text of right answers: {error}") from None
    if not reader.eof:
        raise UnsafeFileError(f"not a text of right answers: it is cut short, or has more than {MOST:,} samples.")
    steps = np.frombuffer(data, dtype=np.uint8)
    return np.where(steps == _UNKNOWN, np.nan, steps / _STEPS)

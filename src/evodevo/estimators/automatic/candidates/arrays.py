"""Arrays of models as bytes, and checks of those that were read."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evodevo import canonical
from evodevo.errors import DataError, UsageError
from evodevo.estimators.automatic.candidates.base import Arrays


def taken(arrays: Arrays, name: str, axes: int, *, whole: bool = False) -> NDArray[np.float64]:
    """An array of finite numbers with so many axes, as float64.

    Raises:
        UsageError: It is missing, or another one.
    """
    array = arrays.get(name)
    if array is None or array.ndim != axes or array.dtype.kind not in ("iu" if whole else "fiu"):
        raise UsageError(f"the model needs {name!r} with {axes} axes of {'whole ' if whole else ''}numbers.")
    if not np.isfinite(array).all():
        raise UsageError(f"{name!r} holds numbers that are not finite.")
    return np.ascontiguousarray(array, np.float64)


SAME, LEAST_SHARED = "same", 1024
"""Entry of a file's metadata: name -> name of an equal array, JSON; and bytes from which arrays are stored once."""


def to_safetensors(arrays: Arrays) -> bytes:
    """Arrays as the bytes of a safetensors file, large ones that are equal once: models of one tower share it."""
    from safetensors.numpy import save

    stored: dict[str, NDArray[Any]] = {}
    first: dict[tuple[str, tuple[int, ...], bytes], str] = {}
    same: dict[str, str] = {}
    for name, array in arrays.items():
        plain = np.asarray(array, order="C")  # not ascontiguousarray, which gives a single number an axis
        if plain.nbytes >= LEAST_SHARED:
            key = plain.dtype.str, plain.shape, hashlib.sha256(plain.tobytes()).digest()
            if first.setdefault(key, name) != name:
                same[name] = first[key]
                continue
        stored[name] = plain
    return bytes(save(stored, {SAME: canonical.dumps(same)} if same else None))


def from_safetensors(data: bytes, what: str) -> dict[str, NDArray[Any]]:
    """The arrays in the bytes of a safetensors file.

    Raises:
        DataError: It is none, or names arrays that it does not have; the message begins with ``what``.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        arrays = dict(load(data))
    except SafetensorError as error:
        raise DataError(f"{what} is no readable safetensors file: {error}") from None
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    try:
        same = canonical.loads(header.get("__metadata__", {}).get(SAME, "{}"), what=what)
    except UsageError as error:
        raise DataError(str(error)) from None
    if (
        not isinstance(same, dict)
        or not all(isinstance(one, str) and one in arrays for one in same.values())
        or same.keys() & arrays.keys()
    ):
        raise DataError(f"{what} names arrays that it does not have, or has.")
    return arrays | {name: arrays[one] for name, one in same.items()}

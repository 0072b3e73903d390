"""Arrays of models as bytes, and checks of those that were read."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

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


def to_safetensors(arrays: Arrays) -> bytes:
    """Arrays as the bytes of a safetensors file."""
    from safetensors.numpy import save

    # Not ascontiguousarray, which gives a single number an axis.
    return bytes(save({name: np.asarray(array, order="C") for name, array in arrays.items()}))


def from_safetensors(data: bytes, what: str) -> dict[str, NDArray[Any]]:
    """The arrays in the bytes of a safetensors file.

    Raises:
        DataError: It is none; the message begins with ``what``.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        return dict(load(data))
    except SafetensorError as error:
        raise DataError(f"{what} is no readable safetensors file: {error}") from None

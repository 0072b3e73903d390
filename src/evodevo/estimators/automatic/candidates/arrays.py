"""Checks of arrays that were read from a file."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from evodevo.errors import UsageError
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

"""Recorded structures of H-Models, read and written by this version of the library.

The normalisers ``sinkhorn`` and ``rms`` and the ``ring`` of a window are gone: the paper does not name them, and no
experiment supported them. A structure that has one is refused, since without it it would be another network.

Records of the paper's stream do not name it: once there was no other. Every record has ``ring``, which no setting has
any more; what has neither is no record, and its stream is the default.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

GONE: Mapping[str, tuple[Any, ...]] = {"normaliser": ("sinkhorn", "rms"), "ring": (True,)}
"""Setting -> its values that are gone."""
NO_RING: Mapping[str, Any] = {"ring": False}
"""The value of every structure that is left, as it was always recorded."""


def upgraded(recorded: Mapping[str, Any]) -> dict[str, Any]:
    """A recorded structure without what is gone.

    Args:
        recorded: plain data; it is left as it is.

    Raises:
        ValueError: it has a value that is gone.
    """
    for name, values in GONE.items():
        if recorded.get(name) in values:
            raise ValueError(
                f"{name} = {json.dumps(recorded[name])} is gone: no paper names it and no experiment supported it. "
                "Leave it out for a new network, or read a recorded one with the evodevo that made it"
            )
    stream = {"stream": "paper"} if "ring" in recorded else {}
    return stream | {name: value for name, value in recorded.items() if (name, value) not in NO_RING.items()}


def as_recorded(values: Mapping[str, Any]) -> dict[str, Any]:
    """A structure with what is gone in its place: hashes of genomes stay the same."""
    return {**values, **NO_RING}

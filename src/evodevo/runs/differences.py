"""Differences of two genomes whose space has no closer comparison: settings of their envelopes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

NOTHING = "–"
"""Value of a setting that a genome does not have."""


def setting_differences(left: Any, right: Any) -> list[dict[str, Any]]:
    """Settings whose values differ, by dotted keys.

    Args:
        left: genes of the first genome, as plain data.
        right: genes of the second.
    """
    a, b = dict(_leaves(left)), dict(_leaves(right))
    return [
        {"setting": place, "a": a.get(place, NOTHING), "b": b.get(place, NOTHING)}
        for place in dict.fromkeys([*a, *b])
        if a.get(place, NOTHING) != b.get(place, NOTHING)
    ]


def _leaves(value: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    """(dotted key, value) of every leaf of nested data."""
    if isinstance(value, dict | list) and value:
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _leaves(inner, f"{place}.{key}" if place else str(key))
    else:
        yield place or "genes", value

"""Threads of numerical libraries."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

SMALL = 400_000
"""Samples times features below which one thread is used."""


@contextmanager
def threads(numbers: int) -> Iterator[None]:
    """One thread for small tables, where several wait for one another longer than they work."""
    from threadpoolctl import threadpool_limits

    if numbers >= SMALL:
        yield
        return
    with threadpool_limits(1):
        yield

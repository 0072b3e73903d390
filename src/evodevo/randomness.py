"""Keyed random generators: a draw depends on its purpose, never on what was drawn before.

A key is (run seed, generation or event, slot, purpose): the same key gives the same numbers in any process, in any
order, after any crash. Nothing mutable has to be saved for an exact resume.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Sequence
from functools import lru_cache
from typing import TypeVar

import numpy as np

Key = int | str
T = TypeVar("T")


def _digest(seed: int, key: tuple[Key, ...]) -> bytes:
    # The type is part of the text, so that 1 and "1" are different keys; lengths make the joint unambiguous.
    parts = [f"{type(part).__name__}:{len(str(part))}:{part}" for part in (seed, *key)]
    return hashlib.blake2b("|".join(parts).encode(), digest_size=32).digest()


def generator(seed: int, *key: Key) -> np.random.Generator:
    """A generator for one purpose.

    Args:
        seed: The run's seed.
        key: Purpose of the draws, for example ``(generation, slot, "mutation")``.
    """
    words = np.frombuffer(_digest(seed, key), dtype=np.uint32)
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(words)))


def integer_seed(seed: int, *key: Key) -> int:
    """A seed in [0, 2**63) for libraries that take one integer (``torch.manual_seed``)."""
    # One bit is dropped, because torch and SQLite hold signed 64-bit integers.
    return int.from_bytes(_digest(seed, key)[:8], "big") >> 1


def draw_one(options: Sequence[T], rng: np.random.Generator) -> T:
    """One of the options, all equally probable: the draw of ``rng.choice(options)``, without the array that it makes.

    Raises:
        ValueError: There are no options.
    """
    return options[int(rng.integers(len(options)))]


def draw_weighted(weights: tuple[float, ...], rng: np.random.Generator) -> int:
    """An index drawn by weights >= 0, of which one is above 0: the draw of ``rng.choice(len(weights), p=...)``."""
    return bisect_right(_cumulative(weights), rng.random())


@lru_cache(maxsize=1024)
def _cumulative(weights: tuple[float, ...]) -> tuple[float, ...]:
    chances = np.array(weights)
    sums = (chances / chances.sum()).cumsum()
    return tuple((sums / sums[-1]).tolist())

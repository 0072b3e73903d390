"""Designed backbones for the first generation: hybrids, without sharing and with it (STAR 5, option pool; 3.1)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from evodevo.backbone.genome import (
    CLASS,
    FEATURE,
    FEATURE_STRATEGY,
    FEATURIZER,
    FEATURIZER_STRATEGY,
    BackboneGenome,
    feature_strategy,
)
from evodevo.operators.classes import LIVClass

Classes = dict[int, LIVClass]
Pattern = list[int]
Depth = Callable[[np.random.Generator], int]
"""Draws the number of LIVs."""

KEYS_AND_VALUES = frozenset({"key", "value"})
TRIES = 16
"""Draws of a hybrid until one has LIVs that can share."""


def hybrid(classes: Classes, depth: Depth, rng: np.random.Generator) -> Pattern | None:
    """Class numbers of a simple hybrid: token mixers alternate with memoryless LIVs, one mixer in stripes of another.

    None where there is no memoryless class or no plain mixer.
    """
    mixers = [n for n, row in classes.items() if row.spec.mixes_tokens and row.differential == "none"]
    memoryless = [n for n, row in classes.items() if not row.spec.mixes_tokens]
    if not mixers or not memoryless:
        return None
    main, other = (int(value) for value in rng.choice(mixers, size=2))
    stripe, between = int(rng.integers(2, 5)), int(rng.choice(memoryless))
    length = depth(rng)
    offset = int(rng.integers(stripe))
    pattern = []
    for position in range(length):
        if position % 2:
            pattern.append(between)
        else:
            pattern.append(other if position // 2 % stripe == offset else main)
    return pattern


def sharing_hybrid(
    classes: Classes,
    depth: Depth,
    unconnected: Callable[[Sequence[int]], BackboneGenome],
    rng: np.random.Generator,
) -> BackboneGenome | None:
    """A hybrid that shares across layers: attention LIVs of a class share keys and values in pairs, and all
    recurrences of a class share one featurizer.

    None where no such hybrid shares anything, for example at a depth of fewer than three LIVs.
    """
    sharing = {n: row for n, row in classes.items() if not row.spec.mixes_tokens or shares(row)}
    for _ in range(TRIES):
        pattern = hybrid(sharing, depth, rng)
        if pattern is None:
            return None
        genome = connected(unconnected(pattern), classes)
        if genome != unconnected(pattern):
            return genome
    return None


def shares(row: LIVClass) -> bool:
    """Whether designed hybrids share anything between LIVs of this class."""
    return _in_pairs(row) or row.spec.family == "recurrence"


def _in_pairs(row: LIVClass) -> bool:
    return row.spec.structure == "low_rank" and row.spec.groups.keys() >= KEYS_AND_VALUES


def connected(genome: BackboneGenome, classes: Classes) -> BackboneGenome:
    """An unconnected backbone with the sharing of ``sharing_hybrid``."""
    rows = [list(segment) for segment in genome]
    members: dict[int, list[list[int]]] = {}
    for row in rows:
        members.setdefault(row[CLASS], []).append(row)
    for number, alike in members.items():
        kind = classes[number]
        if _in_pairs(kind):
            strategy = feature_strategy(kind.spec, KEYS_AND_VALUES)
            for first, second in zip(alike[::2], alike[1::2], strict=False):
                second[FEATURE] = first[FEATURE]
                first[FEATURE_STRATEGY] = second[FEATURE_STRATEGY] = strategy
        elif kind.spec.family == "recurrence" and len(alike) > 1:
            for row in alike:
                row[FEATURIZER], row[FEATURIZER_STRATEGY] = alike[0][FEATURIZER], 2
    return tuple(tuple(row) for row in rows)

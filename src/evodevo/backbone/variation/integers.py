"""The paper's mutation and crossover, which act on the integers of the text form (STAR 4.2, A.4)."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np

from evodevo.backbone.genome import CLASS, BackboneGenome
from evodevo.backbone.validity import Validity
from evodevo.randomness import draw_one


def mutate_integers(
    genome: BackboneGenome, rules: Validity, probability: float, rng: np.random.Generator
) -> BackboneGenome:
    """Each integer, with this probability, becomes another value that is valid at its place.

    Where the depth varies, a LIV is inserted or deleted with the same probability. The result may need repair.
    """
    rows = [list(segment) for segment in genome]
    low, high = rules.depths
    if low < high and rng.random() < probability:
        rows = _change_depth(rows, rules, rng)
    counts, drawn = Counter(row[CLASS] for row in rows), list(rules.drawn)
    for row in rows:
        for place, chance in enumerate(rng.random(rules.genes).tolist()):
            if chance >= probability:
                continue
            allowed = drawn if place == CLASS else rules.values(row[CLASS], place, counts, len(rows))
            others = [value for value in allowed if value != row[place]]
            if others:
                row[place] = draw_one(others, rng)
    return tuple(tuple(row) for row in rows)


def _change_depth(rows: list[list[int]], rules: Validity, rng: np.random.Generator) -> list[list[int]]:
    low, high = rules.depths
    grow = len(rows) < high and (len(rows) == low or bool(rng.random() < 0.5))
    if grow:
        place = int(rng.integers(len(rows) + 1))
        return [*rows[:place], [draw_one(list(rules.drawn), rng), *([0] * (rules.genes - 1))], *rows[place:]]
    place = int(rng.integers(len(rows)))
    return rows[:place] + rows[place + 1 :]


def cross_integers(
    a: BackboneGenome, b: BackboneGenome, genes: int, points: int, rng: np.random.Generator
) -> tuple[BackboneGenome, BackboneGenome]:
    """k-point crossover that cuts between integers, also inside a segment; the children may need repair.

    Args:
        a: First parent.
        b: Second parent.
        genes: Number of integers of a segment.
        points: Number of cuts, k; fewer where the parents have fewer places.
        rng: Generator of the cuts.
    """
    left, right = [v for s in a for v in s], [v for s in b for v in s]
    positions = min(len(left), len(right)) - 1
    count = min(points, positions)
    cuts = sorted(int(c) + 1 for c in rng.choice(positions, size=count, replace=False)) if count else []
    segments: list[int] = []
    two: list[int] = []
    for number, (start, stop) in enumerate(pairwise([0, *cuts, max(len(left), len(right))])):
        sources = (left, right) if number % 2 == 0 else (right, left)
        segments += sources[0][start:stop]
        two += sources[1][start:stop]
    return _segments(segments, genes), _segments(two, genes)


def _segments(values: list[int], genes: int) -> BackboneGenome:
    return tuple(tuple(values[i : i + genes]) for i in range(0, len(values), genes))

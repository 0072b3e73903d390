"""The rank of each arm among those it is compared with, with its confidence interval.

Arms of one cell are compared: on each seed that all of them have, the best on the test split is first, and arms that
are equally good share the mean of their places. The interval is a bootstrap over seeds (Efron 1979); with few of them
it is too narrow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np

from evodevo.experiments.paired import DRAWS, LEVEL, Numbers
from evodevo.randomness import generator

if TYPE_CHECKING:
    from evodevo.experiments.comparison import ComparisonRow, ComparisonTable

FEWEST_ARMS, FEWEST_SEEDS = 3, 2
"""Least numbers of arms and seeds: two arms are described by their difference, and one seed gives no interval."""


@dataclass(frozen=True)
class Rank:
    """The place of an arm.

    Attributes:
        mean: mean rank over seeds; 1 is the best.
        low, high: 95 % interval.
        arms: number of arms that are ranked together.
        seeds: number of seeds that all of them have.
    """

    mean: float
    low: float
    high: float
    arms: int
    seeds: int

    def to_json(self) -> dict[str, float]:
        """The fields by name."""
        return asdict(self)


def ranks(table: ComparisonTable) -> dict[str, Rank]:
    """Group of a row -> its rank; rows of a cell with fewer than three arms, or two common seeds, have none."""
    cells: dict[tuple[tuple[str, str | float], ...], list[ComparisonRow]] = {}
    for row in table.rows:
        if row.trainings:
            cells.setdefault(tuple(sorted(row.cell.items(), key=lambda item: item[0])), []).append(row)
    by_row: dict[str, Rank] = {}
    for rows in cells.values():
        ranked = rank_scores([_scores(row) for row in rows])
        by_row |= dict(zip((row.group for row in rows), ranked, strict=False))
    return by_row


def rank_scores(scores: Sequence[Mapping[int, float]]) -> list[Rank]:
    """The rank of each arm.

    Args:
        scores: for each arm seed -> score, higher is better.

    Returns:
        One rank for each arm; an empty list where there are too few arms or common seeds.
    """
    common = sorted(set.intersection(*map(set, scores))) if scores else []
    if len(scores) < FEWEST_ARMS or len(common) < FEWEST_SEEDS:
        return []
    places = np.stack([_places(np.asarray([by_seed[seed] for by_seed in scores])) for seed in common])  # (seeds, arms)
    rng = generator(0, "rank bootstrap")
    drawn = rng.multinomial(len(common), np.full(len(common), 1 / len(common)), size=DRAWS) / len(common)
    low, high = np.quantile(drawn @ places, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
    return [
        Rank(float(mean), float(below), float(above), len(scores), len(common))
        for mean, below, above in zip(places.mean(0), low, high, strict=True)
    ]


def _places(scores: Numbers) -> Numbers:
    """(N,) places from 1, of scores (N,); equal ones share their mean."""
    better = (scores[None, :] > scores[:, None]).sum(1)
    equal = (scores[None, :] == scores[:, None]).sum(1)
    places: Numbers = better + (equal + 1) / 2
    return places


def _scores(row: ComparisonRow) -> dict[int, float]:
    """Seed -> test accuracy."""
    known = {individual.genome.seed: individual.fact.get("test", {}).get("accuracy") for individual in row.trainings}
    return {seed: float(value) for seed, value in known.items() if value is not None}

"""Successive halving over fronts: most candidates of a generation stop early, and the best of them are trained on.

Every candidate is trained to the first rung, a share of its budget. The candidates are ranked there as NSGA-II ranks a
population (all objectives, non-domination, then crowding), and the best share of them goes on from its snapshot to the
next rung, the last of which is the whole budget. Successive halving: Jamieson and Talwalkar, 2016; ranking by
non-domination within a rung: Schmucker et al., "Multi-objective asynchronous successive halving", 2021.

An individual that stops keeps the scores of its rung. They are not compared with those of the whole budget: the front
and the hypervolume hold individuals of the whole budget alone, and in a population every individual of a lower rung
ranks behind all of the higher ones. It may still become a parent. An algorithm is told its values moved by the mean
change from that rung to the end, of those of its generation that went on (``mean_changes``).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Self

from pydantic import Field, model_validator

from evodevo.search.base import Scored
from evodevo.search.problem import Goal, Outcome
from evodevo.search.selection import crowded_standings, keep_best
from evodevo.settings import Settings


class RungSettings(Settings):
    """The rungs of a search.

    Attributes:
        shares: Shares of the budget at which candidates are ranked, ascending, each above 0 and below 1; the whole
            budget is the last rung and is not named.
        kept: Share of the candidates at a rung that goes on to the next, above 0 and below 1, rounded up.
        minimum: Least number that goes on, at least 1; all where fewer have scores.
    """

    shares: tuple[Annotated[float, Field(gt=0, lt=1)], ...] = Field(default=(0.25,), min_length=1, max_length=16)
    kept: float = Field(default=0.25, gt=0, lt=1)
    minimum: int = Field(default=2, ge=1, le=100_000)

    @model_validator(mode="after")
    def _ascend(self) -> Self:
        if any(later <= earlier for earlier, later in zip(self.shares, self.shares[1:], strict=False)):
            raise ValueError(f"shares of rungs ascend; got {', '.join(map(str, self.shares))}")
        return self

    def size(self, candidates: int) -> int:
        """Number of candidates that go on from a rung that so many have reached."""
        return min(candidates, max(self.minimum, math.ceil(self.kept * candidates)))

    def planned(self, candidates: int) -> float:
        """Training of a generation of so many candidates, in whole budgets: at least the first rung for each."""
        total, before = 0.0, 0.0
        for share in (*self.shares, 1.0):
            total += candidates * (share - before)
            candidates, before = self.size(candidates), share
        return total


def going_on(pool: Sequence[Scored], size: int) -> list[str]:
    """Ids of the ``size`` best of a rung, in the order of the pool; of equals, the earliest.

    Args:
        pool: Candidates of the rung; those whose evaluation failed have no values and never go on.
        size: Number of places; fewer go on where fewer have values.
    """
    scored = [one for one in pool if one.values is not None and one.violation == 0]
    if not scored:
        return []
    chosen = keep_best(crowded_standings(scored), size).tolist()
    return [scored[place].id for place in sorted(chosen)]


def mean_changes(courses: Iterable[Mapping[float, Outcome]], goals: tuple[Goal, ...]) -> dict[float, tuple[float, ...]]:
    """Rung -> mean change of each goal, to minimise, from there to the whole budget, over those that have both.

    Added to the values of an individual that stopped there it gives an estimate of what the whole budget would have
    given, so that an algorithm that learns from values (a surrogate) does not take an early stop for a bad genome. The
    order within a rung stays.
    """
    changes: dict[float, list[tuple[float, ...]]] = {}
    for course in courses:
        last = course[1.0].values(goals) if 1.0 in course else None
        for share, outcome in course.items():
            first = outcome.values(goals)
            if share < 1 and first is not None and last is not None:
                changes.setdefault(share, []).append(tuple(b - a for a, b in zip(first, last, strict=True)))
    return {
        share: tuple(math.fsum(column) / len(column) for column in zip(*rows, strict=True))
        for share, rows in changes.items()
    }


def spent_tokens(courses: Iterable[Mapping[float, Outcome]]) -> dict[float, int]:
    """Tokens that individuals were trained on, by the rung at which they were spent, ascending.

    What an interruption made a worker train twice is not counted, nor an outcome that was copied from an equal genome.

    Args:
        courses: Share of the budget -> outcome there, for each individual. An outcome's tokens (``extra["tokens"]``)
            are those since the beginning; outcomes without them (a crash, a problem without tokens) add none.
    """
    spent: dict[float, int] = {}
    for course in courses:
        before = 0
        for share, outcome in sorted(course.items(), key=lambda item: item[0]):
            tokens = outcome.extra.get("tokens")
            if tokens is None or "same_as" in outcome.extra:
                continue
            spent[share] = spent.get(share, 0) + int(tokens) - before
            before = int(tokens)
    return dict(sorted(spent.items()))

"""Populations of paths: the best never dies, ties go to the oldest, and one is left at a cycle's end."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from evodevo.errors import UsageError
from evodevo.multitask.search.population import (
    Population,
    PopulationSettings,
    ScoredPath,
    best,
    ordered,
    with_generation,
    with_offspring,
)
from evodevo.randomness import generator


def member(number: int, score: float, offspring: int = 0) -> ScoredPath:
    return ScoredPath(f"Vit~a/{number}", number, score, offspring)


@pytest.mark.parametrize("prune", ["top", "stochastic"])
def test_the_best_score_never_falls_and_the_cap_holds(prune: str) -> None:
    settings = PopulationSettings(cap=4, prune="top" if prune == "top" else "stochastic")
    rng = generator(1, prune)
    population: Population = ()
    top = -math.inf
    for first in range(0, 80, 4):
        children = [member(first + i, float(rng.random()), int(rng.integers(0, 4))) for i in range(4)]
        population = with_generation(population, children, settings, rng)
        assert len(population) == 4
        assert population == ordered(population)
        assert population[0].score == max(top, *(one.score for one in children))
        top = population[0].score


def test_the_top_are_kept_and_of_equals_the_oldest() -> None:
    everyone = [member(3, 0.5), member(1, 0.5), member(2, 0.9), member(4, 0.1)]
    kept = with_generation(everyone, [member(5, 0.5)], PopulationSettings(cap=2), generator(1))
    assert [one.number for one in kept] == [2, 1]
    assert best([member(2, 0.5), member(1, 0.5)]) == member(1, 0.5)
    assert best([]) is None


def test_without_a_cap_all_live() -> None:
    kept = with_generation([], [member(i, i / 10) for i in range(9)], PopulationSettings(cap=None), generator(1))
    assert len(kept) == 9


def test_stochastic_survivors_follow_their_offspring() -> None:
    # Best: 0. Then 1 (often a parent already) is accepted with 1/4, else 2 with 1, so 3 never is.
    everyone = [member(0, 0.9), member(1, 0.8, 2), member(2, 0.7), member(3, 0.6)]
    rng = generator(2, "stochastic")
    settings = PopulationSettings(cap=2, prune="stochastic")
    second = [with_generation(everyone, [], settings, rng)[1].number for _ in range(4_000)]
    assert set(second) == {1, 2}
    assert abs(np.mean([one == 1 for one in second]) - 0.25) < 0.03


def test_a_choice_counts_once() -> None:
    population = (member(1, 0.5), member(2, 0.4, 3))
    after = with_offspring(population, "Vit~a/2")
    assert after == (population[0], replace(population[1], offspring=4))
    assert after[1].acceptance == 1 / 16


def test_who_has_no_score_is_no_member_and_nobody_is_twice() -> None:
    with pytest.raises(UsageError, match="finite score"):
        member(1, math.nan)
    with pytest.raises(UsageError, match="already"):
        with_generation([member(1, 0.5)], [member(1, 0.5)], PopulationSettings(), generator(1))

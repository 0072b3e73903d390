"""Parents (docs/spec/munet.md#parents) and populations: published probabilities, laws of the fallback, who lives."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from evodevo.errors import UsageError
from evodevo.multitask.search.parents import (
    ParentChoice,
    ParentSettings,
    fallback_probability,
    select_parent,
    select_parents,
)
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

STRANGERS = ["Vit~b/9", "Vit~c/4", "Root~r/0"]
PAPER = ParentSettings()


def members(*offspring: int) -> list[ScoredPath]:
    """Own paths, best first."""
    return [ScoredPath(f"Vit~a/{n}", n, 1 - n / 100, count) for n, count in enumerate(offspring)]


def choices(population: list[ScoredPath], settings: ParentSettings = PAPER, count: int = 4_000) -> list[ParentChoice]:
    rng = generator(1, "parents", len(population))
    return [select_parent(population, STRANGERS, rng, settings) for _ in range(count)]


@pytest.mark.parametrize(
    ("offspring", "probability"),
    [((), 1.0), ((0,), 0.0), ((1,), 0.5), ((1, 1), 0.25), ((2, 1, 3), 0.3281), ((4,) * 4, 0.7725), ((10,), 0.999)],
)
def test_fallback_probabilities_of_the_specification(offspring: tuple[int, ...], probability: float) -> None:
    population = members(*offspring)
    assert fallback_probability(population) == pytest.approx(probability, abs=5e-5)
    drawn = choices(population)
    assert all(one.fallback_probability == fallback_probability(population) for one in drawn)
    assert abs(np.mean([one.how == "uniform" for one in drawn]) - probability) < 0.02


def test_an_unused_best_path_is_always_the_parent() -> None:
    assert {(one.parent, one.own, len(one.considered)) for one in choices(members(0, 0))} == {("Vit~a/0", True, 1)}


def test_paths_are_considered_in_order_of_score_whatever_order_they_come_in() -> None:
    population = members(3, 3, 3)
    rng = generator(2, "order")
    for one in (select_parent(population[::-1], STRANGERS, rng, PAPER) for _ in range(200)):
        names = [each.id for each in one.considered]
        assert names == ["Vit~a/0", "Vit~a/1", "Vit~a/2"][: len(names)]
        assert [each.accepted for each in one.considered[:-1]] == [False] * (len(names) - 1)
        assert one.considered[-1].accepted == (one.how == "population")


def test_the_uniform_fallback_draws_from_all_in_sight_the_own_ones_too() -> None:
    drawn = choices(members(60, 60))
    names = [one.parent for one in drawn]
    for name in ("Vit~a/0", "Vit~a/1", *STRANGERS):
        assert abs(np.mean([one == name for one in names]) - 0.2) < 0.02
    assert {(one.pool, one.probability) for one in drawn} == {(5, 0.2)}
    assert all(one.own == (one.parent or "").startswith("Vit~a") for one in drawn)


def test_weights_inform_the_fallback() -> None:
    rng = generator(3, "weights")
    weights = {"Vit~b/9": 3.0, "Vit~c/4": 1.0, "Root~r/0": 1.0}
    drawn = [select_parent([], STRANGERS, rng, PAPER, weights=weights) for _ in range(5_000)]
    assert abs(np.mean([one.parent == "Vit~b/9" for one in drawn]) - 0.6) < 0.03


def test_siblings_see_each_other_s_choices() -> None:
    generators = [generator(4, slot) for slot in range(4)]
    picked, after = select_parents(members(0), STRANGERS, generators, PAPER)
    assert picked[0].how == "population"
    assert [one.considered[0].probability for one in picked] == [
        0.5 ** sum(each.how == "population" for each in picked[:slot]) for slot in range(4)
    ]
    assert after[0].offspring == sum(one.how == "population" for one in picked)


def test_what_the_fallback_draws_does_not_count_as_offspring() -> None:
    picked, after = select_parents(members(60), [], [generator(5)], PAPER)
    assert (picked[0].how, picked[0].own) == ("uniform", True)
    assert after[0].offspring == 60


def test_a_multipath_agent_draws_a_new_structure_instead() -> None:
    drawn = choices(members(1), ParentSettings(fallback="none"))
    assert {(one.parent, one.own) for one in drawn} == {(None, False), ("Vit~a/0", True)}


def test_a_system_begins_with_a_root() -> None:
    with pytest.raises(UsageError, match="root"):
        select_parent([], [], generator(8), PAPER)


# Populations: the best never dies, ties go to the oldest, and one is left at a cycle's end


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

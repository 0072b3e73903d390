"""Parents: the published probabilities (docs/spec/munet.md#parents), and laws of each fallback."""

from __future__ import annotations

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
from evodevo.multitask.search.population import ScoredPath
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

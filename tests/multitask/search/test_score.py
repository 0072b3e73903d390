"""Scores: who pays for what (docs/spec/munet.md#score), how much, and which weights are kept."""

from __future__ import annotations

import math

import pytest

from evodevo.errors import UsageError
from evodevo.multitask.search.accounts import accounted_parameters
from evodevo.multitask.search.score import (
    NO_COST,
    ScoreSettings,
    bar,
    cost,
    kept_evaluation,
    quality_bar,
    score,
)
from evodevo.randomness import generator

SIZES = {"R:0": 100, "R:1": 60, "A:0": 60, "A:1": 10, "B:0": 7}
PATHS = {"R": ["R:0", "R:1"], "A": ["R:0", "A:0", "A:1"], "B": ["R:0", "A:0", "B:0"]}


def locks(*agents: str) -> dict[str, set[str]]:
    return {name: {agent for agent in agents if name in PATHS[agent]} for name in SIZES}


def accounted(agent: str, *published: str) -> float:
    return accounted_parameters([(name, SIZES[name]) for name in PATHS[agent]], locks(*published), agent)


def test_accounts_of_a_system_made_by_hand() -> None:
    assert accounted("R", "R", "A", "B") == pytest.approx(100 / 3 + 60)
    assert accounted("A", "R", "A", "B") == pytest.approx(100 / 3 + 60 / 2 + 10)
    assert accounted("B", "R", "A", "B") == pytest.approx(100 / 3 + 60 / 2 + 7)


def test_accounts_add_up_to_the_distinct_parameters() -> None:
    assert sum(accounted(agent, "R", "A", "B") for agent in PATHS) == pytest.approx(sum(SIZES.values()))


def test_own_use_counts_once_published_or_not() -> None:
    assert accounted("A", "R", "B") == accounted("A", "R", "A", "B")


def test_a_fresh_path_over_the_whole_root_pays_half_of_it() -> None:
    root = [("R:0", 100), ("R:1", 60)]
    assert accounted_parameters(root, locks("R"), "C") == 80


def test_an_adopted_layer_costs_less() -> None:
    assert accounted("A", "R", "A", "B") < accounted("A", "R", "A")


def test_factors_of_the_specification() -> None:
    settings = ScoreSettings(base_parameters=1_484_162, base_flops=15e6)
    # Ten classes instead of two; FLOPs after 2.9's formula at 5 tokens, width 192, 3 blocks.
    tiny, flops = 1_484_162 + 193 * 8, 14_512_128
    assert cost(tiny, 0, settings, (0, 0)).factor == pytest.approx(0.979979, abs=1e-6)
    assert cost(0, flops, settings, (0, 0)).factor == pytest.approx(0.980644, abs=1e-6)
    both = cost(tiny, flops, settings, (0, 0)).factor
    assert both == pytest.approx(0.979979 * 0.980644, abs=2e-6)
    large = ScoreSettings(scale=0.99, base_parameters=2.2e9, base_flops=3.8e12)
    assert cost(304_715_752, 0, large, (0, 0)).factor == pytest.approx(0.998609, abs=1e-6)
    assert cost(0, 3.821e11, large, (0, 0)).factor == pytest.approx(0.998990, abs=1e-6)


def test_bases_are_the_root_s_unless_named_and_zero_leaves_a_factor_out() -> None:
    assert cost(50, 200, ScoreSettings(), (50, 100)).factor == pytest.approx(0.98**3)
    assert cost(50, 200, ScoreSettings(base_parameters=25.0), (50, 100)).factor == pytest.approx(0.98**4)
    assert cost(50, 200, ScoreSettings(), (0, 100)).factor == pytest.approx(0.98**2)
    assert cost(50, 200, NO_COST, (50, 100)).factor == 1
    assert score(0.7, cost(1e9, 1e12, ScoreSettings(scale=1.0), (50, 100)).factor) == 0.7


def test_more_parameters_or_flops_cost_more() -> None:
    def factor(accounted: float, flops: float) -> float:
        return cost(accounted, flops, ScoreSettings(), (100, 100)).factor

    for amount in (0, 1, 50, 1000):
        assert factor(amount, 0) > factor(amount + 1, 0)
        assert factor(0, amount) > factor(0, amount + 1)


def test_no_quality_is_no_score() -> None:
    assert score(None, 0.9) is None
    assert score(math.nan, 0.9) is None
    assert score(0.0, 0.9) == 0
    with pytest.raises(UsageError, match=r"in \[0, 1\]"):
        score(-0.1, 0.9)


def test_a_tie_with_the_parent_is_no_improvement_however_it_rounds() -> None:
    rng = generator(1, "ties")
    wrong = 0
    for _ in range(3_000):
        factor = float(rng.uniform(0.5, 1))
        quality = int(rng.integers(1, 500)) / 500
        parent = score(quality, factor)
        assert parent is not None
        seen = quality_bar(bar(parent, counts=True), factor)
        assert seen is not None
        for other in (quality, math.nextafter(quality, 2), math.nextafter(quality, 0), quality + 0.002):
            assert (other > seen) == (other * factor > parent)
        wrong += quality > parent / factor
    assert wrong > 0  # the rule matters: a plain division takes ties for improvements


def test_the_bar_is_the_own_parent_s_score() -> None:
    assert bar(0.8, counts=True) == 0.8
    assert bar(0.8, counts=False) is None
    assert quality_bar(None, 0.9) is None


@pytest.mark.parametrize(
    ("evals", "above", "kept"),
    [
        ([0.5, 0.7, 0.7, 0.6], None, 1),
        ([0.5, 0.7, 0.7, 0.6], 0.7, None),
        ([0.5, 0.7, 0.7, 0.6], 0.65, 1),
        ([0.5, 0.4], 0.9, None),
        ([math.nan, 0.0], None, 1),
        ([math.nan, None], None, None),
        ([], None, None),
    ],
)
def test_the_first_of_the_best_above_the_bar_is_kept(
    evals: list[float | None], above: float | None, kept: int | None
) -> None:
    assert kept_evaluation(evals, above) == kept

"""Paired differences: their interval covers the truth as often as it says, and pairing makes it short."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats

from evodevo.experiments import paired
from evodevo.experiments.paired import holm, paired_difference, paired_mean

Rows = list[np.ndarray]  # type: ignore[type-arg]


def answers(seed: int, seeds: int, samples: int, right: float) -> Rows:
    rng = np.random.default_rng(seed)
    return [(rng.uniform(size=samples) < right).astype(float) for _ in range(seeds)]


def test_by_hand() -> None:
    found = paired_difference([np.asarray([1.0, 1, 0, 1])], [np.asarray([1.0, 0, 0, 1])])
    assert (found.mean, found.seeds, found.samples) == (0.25, 1, 4)
    assert (found.low, found.high) == (0.0, 0.75), "quarters, as often as one sample of four is drawn"


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 1000), st.integers(1, 4), st.integers(1, 50))
def test_it_is_antisymmetric_and_zero_against_itself(seed: int, seeds: int, samples: int) -> None:
    a, b = answers(seed, seeds, samples, 0.7), answers(seed + 1, seeds, samples, 0.6)
    ours, theirs, same = paired_difference(a, b), paired_difference(b, a), paired_difference(a, a)
    assert ours.mean == pytest.approx(-theirs.mean)
    assert ours.low <= ours.mean + 1e-12
    assert ours.high >= ours.mean - 1e-12
    assert (same.mean, same.low, same.high) == (0, 0, 0)
    assert ours == paired_difference(a, b), "the same at every call"


def test_the_interval_is_that_of_a_plain_bootstrap() -> None:
    a, b = answers(3, 3, 60, 0.8), answers(4, 3, 60, 0.6)
    found = paired_difference(a, b)
    gaps, rng = np.stack(a) - np.stack(b), np.random.default_rng(0)
    means = [gaps[np.ix_(rng.integers(0, 3, 3), rng.integers(0, 60, 60))].mean() for _ in range(4000)]
    low, high = np.quantile(means, [0.025, 0.975])
    assert found.low == pytest.approx(low, abs=0.015)
    assert found.high == pytest.approx(high, abs=0.015)


def test_it_covers_the_truth_about_as_often_as_it_says() -> None:
    covered = 0
    for trial in range(200):
        found = paired_difference(answers(2 * trial, 1, 200, 0.7), answers(2 * trial + 1, 1, 200, 0.6))
        covered += found.low <= 0.1 <= found.high
    assert covered / 200 == pytest.approx(0.95, abs=0.05)


def test_pairing_shortens_the_interval() -> None:
    base = answers(0, 3, 500, 0.7)
    better = [one.copy() for one in base]
    for one in better:
        one[:10] = 1.0  # the same samples but for a few
    paired, loose = paired_difference(better, base), paired_difference(answers(9, 3, 500, 0.71), base)
    assert paired.high - paired.low < 0.5 * (loose.high - loose.low)


def test_what_is_not_common_does_not_count() -> None:
    a, b = np.asarray([1.0, np.nan, 0.0, 1.0]), np.asarray([0.0, 1.0, np.nan, 1.0])
    found = paired_difference([a], [b])
    assert (found.mean, found.samples) == (0.5, 2)
    assert paired_difference([], []) is None
    assert paired_difference([a], [b[:2]]) is None
    assert paired_difference([a * np.nan], [b]) is None


def test_draws_in_blocks_give_the_interval_of_one_block(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    a, b = [rng.uniform(size=400)], [rng.uniform(size=400)]
    whole = paired_difference(a, b)
    monkeypatch.setattr(paired, "_MOST_NUMBERS", 1 << 16)
    blocks = paired_difference(a, b)
    assert whole.low < 0 < whole.high
    assert (blocks.low, blocks.high) == (pytest.approx(whole.low, abs=0.005), pytest.approx(whole.high, abs=0.005))


def _stepped_down(values: list[float], level: float) -> set[int]:
    """Tests that are rejected one after another, from the smallest p on, until one is not."""
    rejected: set[int] = set()
    for rank, place in enumerate(sorted(range(len(values)), key=values.__getitem__)):
        if values[place] > level / (len(values) - rank):
            break
        rejected.add(place)
    return rejected


@given(st.lists(st.floats(0, 1), min_size=1, max_size=6), st.floats(0.001, 1))
def test_adjusted_p_rejects_what_stepping_down_rejects(values: list[float], level: float) -> None:
    adjusted = holm(values)
    assume(all(one is not None and abs(one - level) > 1e-9 for one in adjusted))
    assert {place for place, one in enumerate(adjusted) if one is not None and one <= level} == _stepped_down(
        values, level
    )


def test_a_test_without_p_is_no_test() -> None:
    assert holm([0.02, None, 0.03]) == [0.04, None, 0.04]


def test_the_spread_of_pairs_is_students_and_what_is_detectable_is_found_four_times_out_of_five() -> None:
    rng = np.random.default_rng(0)
    ours, theirs = rng.normal(0.5, 0.02, 8), rng.normal(0.49, 0.02, 8)
    gaps = ours - theirs
    spread = paired_mean(ours.tolist(), theirs.tolist())
    assert spread is not None
    interval = stats.ttest_1samp(gaps, 0).confidence_interval(0.95)
    assert (spread.low, spread.high) == pytest.approx((interval.low, interval.high))
    drawn = rng.normal(spread.detectable, gaps.std(ddof=1), (20_000, 8))
    found = (stats.ttest_1samp(drawn, 0, axis=1).pvalue < 0.05).mean()
    assert found == pytest.approx(0.8, abs=0.015)
    assert paired_mean([0.5], [0.4]) is None

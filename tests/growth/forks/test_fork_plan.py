"""The plan of forks keeps within its share, and the interval of a gain covers what it says."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from evodevo.growth.forks.interval import gain_of, noise_variance, scatter
from evodevo.growth.forks.plan import ForkSamples, forks_planned, plan_forks
from evodevo.growth.spec import ForkSettings


@pytest.mark.parametrize("orders", [0, 1, 3])
@pytest.mark.parametrize("again", [0, 2])
@pytest.mark.parametrize("follow", [0, 3])
@pytest.mark.parametrize("paired", [False, True])
def test_forks_keep_within_their_share_and_are_as_long_as_asked(
    orders: int, again: int, follow: int, paired: bool
) -> None:
    settings = ForkSettings(
        share=0.15, samples=100, least=20, orders=orders, orders_again=again, follow=follow, paired=paired
    )
    step, forward, samples = 3 * 64 * 1e6, 1e6, ForkSamples(100, 100)
    seen = set()
    for budget in np.geomspace(1e10, 1e13, 25):
        plan = plan_forks(settings, float(budget), 8, step, forward, samples)
        seen.add(plan.most)
        if not plan.most:
            assert plan.side == 0
            assert "no room" in plan.instead
            continue
        others = (orders + (plan.most - 1) * again) * (2 if paired else 1)
        trainings = 2 * (1 + follow) * plan.most + others
        judged = 400 * plan.most + 100 * others + plan.most * (200 if follow else 0)
        assert trainings * plan.side + judged * forward == pytest.approx(0.15 * budget)
        assert plan.steps >= 20
        assert plan.most <= 8
    assert {0, 8} <= seen


def test_the_stated_budget_is_the_least() -> None:
    settings, samples = ForkSettings(share=0.15, samples=50, least=20), ForkSamples(50, 50)
    none = plan_forks(settings, 1e9, 4, 1e8, 1e6, samples)
    least = float(none.instead.split("give ")[1].split()[0])
    assert plan_forks(settings, 1.01 * least, 4, 1e8, 1e6, samples).most == 1
    assert plan_forks(settings, 0.99 * least, 4, 1e8, 1e6, samples).most == 0


def test_one_fork_takes_what_it_needs_up_to_the_largest_share() -> None:
    samples = ForkSamples(50, 50)
    settings = ForkSettings(share=0.03, most_share=0.15, least=20, orders=0, required=True)
    needed = 2 * 20 * 1e8 + 200 * 1e6
    for budget in np.geomspace(2 * needed, 60 * needed, 30):
        plan = plan_forks(settings, float(budget), 4, 1e8, 1e6, samples)
        assert plan.allowed <= max(0.03 * budget, needed) * (1 + 1e-12)
        assert bool(plan.most) == (needed <= 0.15 * budget)
        if plan.most:
            assert plan.steps >= 20
            assert 2 * plan.most * plan.side + plan.most * 200 * 1e6 == pytest.approx(plan.allowed)
        else:
            assert not plan.edits
            assert forks_planned(plan.most, plan.steps, plan.instead, edits=plan.edits).endswith("Nothing is edited.")
            least = float(plan.instead.split("give ")[1].split()[0])
            assert plan_forks(settings, 1.01 * least, 4, 1e8, 1e6, samples).most == 1


def test_a_split_that_is_too_small_has_no_forks() -> None:
    settings = ForkSettings(share=0.15)
    assert ForkSamples.of(settings, 10_000) == ForkSamples(2000, 2000)
    assert ForkSamples.of(settings, 301) == ForkSamples(150, 150)
    assert "fewer than 4" in plan_forks(settings, 1e15, 4, 1e8, 1e6, ForkSamples.of(settings, 3)).instead


def test_without_noise_it_is_the_paired_interval_of_student() -> None:
    rng = np.random.default_rng(1)
    without, edited = rng.normal(size=40), rng.normal(size=40)
    gain = gain_of(without, edited, 0.0, 0, 0.95)
    wanted = stats.ttest_rel(without, edited, alternative="greater").confidence_interval(0.95)
    assert gain.lower == pytest.approx(wanted.low)
    assert gain.gain - gain.lower == pytest.approx(gain.upper - gain.gain)
    equal = gain_of(without, without, 0.0, 0, 0.95)
    assert equal.gain == equal.lower == equal.upper == 0.0, "which is not above 0"


def test_with_noise_alone_it_is_that_of_the_orders() -> None:
    losses = [1.0, 1.3, 0.8]
    variance = noise_variance(scatter(losses), 2)
    assert variance == pytest.approx(2 * np.var(losses, ddof=1))
    gain = gain_of(np.full(10, 2.0), np.full(10, 1.5), variance, 2, 0.95)
    assert gain.lower == pytest.approx(0.5 - stats.t.ppf(0.95, 2) * variance**0.5)


@pytest.mark.parametrize("noise", [0.0, 0.05, 0.3])
def test_an_edit_that_does_nothing_is_kept_as_rarely_as_the_level_says(noise: float) -> None:
    rng, kept, tries = np.random.default_rng(7), 0, 1500
    for _ in range(tries):
        orders = noise * rng.normal(size=3)
        per_sample = rng.normal(size=50)
        edited = per_sample + 0.5 * rng.normal(size=50) + noise * rng.normal()
        variance = noise_variance(scatter([1.0 + one for one in orders]), 2)
        kept += gain_of(per_sample + orders[0], edited, variance, 2, 0.95).lower > 0
    assert kept / tries < 0.05 + 3 * (0.05 * 0.95 / tries) ** 0.5

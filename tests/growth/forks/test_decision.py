"""The decision of a fork from losses alone: its noise, its interval, and who is refused."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from evodevo.growth.forks.decision import ForkLosses, Losses, decided, noise_of, published_gain
from evodevo.growth.forks.records import ForkRecord

LEVEL = 0.95
EMPTY = ForkRecord(edits=("an edit",))


def flat(mean: float, samples: int = 8) -> Losses:
    return np.full(samples, mean)


def test_where_samples_agree_the_paired_interval_is_that_of_student_over_the_orders() -> None:
    gains = [0.03, 0.01, 0.05]
    without = [1.0, 1.4, 0.7]
    edited = [loss - gain for loss, gain in zip(without, gains, strict=True)]
    judged = ForkLosses(
        flat(edited[0]), flat(without[0]), [flat(loss) for loss in without[1:]], [flat(loss) for loss in edited[1:]]
    )
    record = decided(EMPTY, judged, (), LEVEL, paired=True)
    assert record.chose is not None
    wanted = stats.ttest_1samp(gains, 0, alternative="greater").confidence_interval(LEVEL)
    assert record.chose.gain == pytest.approx(np.mean(gains))
    assert record.chose.lower == pytest.approx(wanted.low)
    assert record.pairs == pytest.approx(gains)
    assert record.noise == pytest.approx(np.std(gains, ddof=1))
    assert record.losses == pytest.approx((edited[0], *without))
    assert record.kept == (wanted.low > 0)
    published = published_gain(flat(1.0), flat(0.9), record, LEVEL)
    assert published.gain == pytest.approx(0.1)
    assert published.gain - published.lower == pytest.approx(stats.t.ppf(LEVEL, 2) * np.std(gains, ddof=1))


def test_the_noise_of_one_order_is_less_than_that_of_orders_of_their_own() -> None:
    judged = ForkLosses(flat(0.9), flat(1.0), [flat(1.4), flat(0.6)], [flat(1.29), flat(0.51)])
    own, paired = (noise_of(judged, (), paired=each).variance for each in (False, True))
    assert own == pytest.approx(2 * np.var([1.0, 1.4, 0.6], ddof=1))
    assert paired == pytest.approx(np.var([0.1, 0.11, 0.09], ddof=1))
    assert decided(EMPTY, judged, (), LEVEL, paired=True).kept
    assert not decided(EMPTY, judged, (), LEVEL, paired=False).kept


def test_later_forks_have_the_noise_of_all() -> None:
    first = ForkLosses(flat(0.9), flat(1.0), [flat(1.4)], [flat(1.28)])
    record = decided(EMPTY, first, (), LEVEL, paired=True)
    later = noise_of(ForkLosses(flat(0.8), flat(1.0)), [record], paired=True)
    assert (later.scatter, later.freedom) == (0.0, record.freedom)
    assert later.variance == pytest.approx(np.var([0.1, 0.12], ddof=1))


@pytest.mark.parametrize("nothing", [None, flat(float("inf"))])
def test_who_cannot_be_trained_in_one_order_is_refused(nothing: Losses | None) -> None:
    good = [flat(1.0), flat(1.1)]
    for judged in (
        ForkLosses(nothing, good[0], good, [flat(0.5), flat(0.5)]),
        ForkLosses(flat(0.5), good[0], good, [flat(0.5), nothing]),
    ):
        record = decided(EMPTY, judged, (), LEVEL, paired=True)
        assert not record.kept
        assert record.reason == "with it the training diverged"
    assert decided(EMPTY, ForkLosses(flat(0.5), nothing, good, [flat(0.5)] * 2), (), LEVEL, paired=True).kept
    dropped = decided(
        EMPTY, ForkLosses(flat(0.5), good[0], [nothing, good[1]], [nothing, flat(0.6)]), (), LEVEL, paired=True
    )
    assert dropped.pairs == pytest.approx((0.5, 0.5)), "an order in which neither could be trained says nothing"


@pytest.mark.parametrize("noise", [0.0, 0.05, 0.3])
@pytest.mark.parametrize("orders", [0, 2])
def test_an_edit_that_does_nothing_is_kept_as_rarely_as_the_level_says(orders: int, noise: float) -> None:
    if noise and not orders:
        pytest.skip("without other orders the interval has the error of the samples alone, as the page says")
    rng, kept, tries = np.random.default_rng(7), 0, 1500
    for _ in range(tries):
        base = rng.normal(size=50)

        def training(base: Losses = base) -> Losses:
            return base + 0.5 * rng.normal(size=50) + noise * rng.normal()

        judged = ForkLosses(
            training(), training(), [training() for _ in range(orders)], [training() for _ in range(orders)]
        )
        kept += decided(EMPTY, judged, (), LEVEL, paired=True).kept
    assert kept / tries < 0.05 + 3 * (0.05 * 0.95 / tries) ** 0.5

"""Places of arms among each other: order, ties, common seeds, and an interval that knows how sure it is."""

from __future__ import annotations

import numpy as np
import pytest

from evodevo.experiments.ranking import rank_scores
from evodevo.randomness import generator


def _drawn(arms: int = 5, seeds: int = 6) -> list[dict[int, float]]:
    values = generator(0, "scores").random((arms, seeds))
    return [dict(enumerate(row)) for row in values.tolist()]


def test_an_arm_that_always_wins_is_first_for_sure() -> None:
    best, middle, worst = rank_scores([{s: base + s for s in range(4)} for base in (0.3, 0.2, 0.1)])
    assert [(one.mean, one.low, one.high) for one in (best, middle, worst)] == [(1, 1, 1), (2, 2, 2), (3, 3, 3)]
    assert (best.arms, best.seeds) == (3, 4)


def test_equal_arms_share_the_mean_of_their_places() -> None:
    found = rank_scores([{0: 0.5, 1: 0.5}, {0: 0.5, 1: 0.5}, {0: 0.1, 1: 0.9}])
    assert [one.mean for one in found] == [(1.5 + 2.5) / 2, (1.5 + 2.5) / 2, 2.0]


def test_places_add_up_and_intervals_hold_the_mean() -> None:
    found = rank_scores(_drawn())
    assert sum(one.mean for one in found) == pytest.approx(1 + 2 + 3 + 4 + 5)
    assert all(1 <= one.low <= one.mean <= one.high <= 5 for one in found)
    assert any(one.low < one.high for one in found)
    assert found == rank_scores(_drawn()), "the same at every call"


def test_only_the_order_of_common_scores_matters() -> None:
    scores = _drawn()
    order = [3, 0, 4, 1, 2]
    assert [rank_scores(scores)[place] for place in order] == rank_scores([scores[place] for place in order])
    bent = [{seed: float(np.exp(3 * value)) for seed, value in one.items()} for one in scores]
    assert rank_scores(bent) == rank_scores(scores)
    more = [one | {100 + number: 9.0} for number, one in enumerate(scores)]
    assert rank_scores(more) == rank_scores(scores), "a seed that not all have"
    assert rank_scores([]) == rank_scores(scores[:2]) == [], "too few arms"
    assert rank_scores([{0: one[0]} for one in scores]) == [], "too few seeds"

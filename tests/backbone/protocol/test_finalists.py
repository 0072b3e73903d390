"""The paper's rule on made-up fronts and on a recorded search; hit rates on the paper's own tables."""

from __future__ import annotations

import json
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from evodevo.backbone.protocol.finalists import Contender, choose_finalists
from evodevo.backbone.protocol.hits import hit_rate, is_hit, mean_accuracy

FRONT = json.loads((Path(__file__).parent / "recorded_search.json").read_text())

BASELINES = {
    "Transformer++": (28.9, 38.8, 51.2, 61.2, 64.1),
    "StripedMamba": (28.6, 39.3, 51.1, 60.9, 67.4),
}
"""HellaSwag, ARC-Easy, Winogrande, PiQA, SciQ: STAR, Tables 5.1 and A.4."""
QUALITY = {
    "STAR-1": (29.8, 39.3, 51.2, 62.2, 72.5),
    "STAR-2": (29.2, 40.5, 51.1, 61.6, 72.4),
    "STAR-3": (29.7, 40.0, 50.9, 62.0, 71.2),
    "STAR-4": (29.3, 39.7, 51.0, 61.5, 72.6),
    "STAR-5": (29.2, 39.1, 52.1, 62.1, 72.7),
    "STAR-6": (29.0, 39.9, 50.9, 61.7, 71.1),
    "STAR-7": (29.3, 38.2, 51.5, 61.6, 70.2),
    "STAR-8": (29.1, 40.6, 50.8, 62.0, 70.3),
}
QUALITY_AND_SIZE = {
    "STAR-1": (28.9, 39.3, 51.0, 61.8, 67.6),
    "STAR-2": (28.7, 37.5, 52.8, 61.0, 68.9),
    "STAR-3": (29.2, 39.5, 51.9, 61.5, 69.4),
    "STAR-4": (29.2, 40.0, 52.7, 61.4, 68.9),
    "STAR-5": (29.2, 40.0, 52.7, 61.0, 67.8),
    "STAR-6": (27.7, 39.5, 53.1, 61.6, 69.4),
    "STAR-7": (27.8, 39.2, 49.9, 61.2, 69.5),
    "STAR-8": (27.5, 39.2, 51.7, 61.8, 64.1),
}
QUALITY_AND_CACHE = {
    "STAR-1": (28.9, 40.0, 51.3, 61.0, 66.4),
    "STAR-2": (28.7, 40.1, 50.3, 62.2, 66.0),
    "STAR-3": (28.9, 40.6, 50.2, 61.3, 67.2),
    "STAR-4": (29.1, 39.9, 53.0, 62.2, 66.7),
    "STAR-5": (28.9, 40.0, 50.2, 61.1, 69.1),
    "STAR-6": (29.1, 40.0, 51.3, 60.9, 68.7),
    "STAR-7": (28.6, 39.4, 52.6, 61.0, 66.6),
    "STAR-8": (28.8, 38.8, 51.2, 61.0, 67.0),
}


def test_the_papers_tables_give_the_papers_hit_rates() -> None:
    assert hit_rate(QUALITY, BASELINES) == (8, 8)
    assert hit_rate(QUALITY_AND_SIZE, BASELINES) == (7, 8)
    assert hit_rate(QUALITY_AND_CACHE, BASELINES) == (7, 8)


def test_equal_means_are_a_hit_whatever_the_rounding_of_their_sums() -> None:
    ours, theirs = QUALITY_AND_CACHE["STAR-2"], BASELINES["StripedMamba"]
    assert round(sum(ours), 6) == round(sum(theirs), 6)
    assert is_hit(mean_accuracy(ours), [mean_accuracy(theirs)])
    assert not is_hit(mean_accuracy(ours) - 0.01, [mean_accuracy(theirs)])
    assert is_hit(7.1, [7.2, 7.3], higher_is_better=False)
    assert not is_hit(7.25, [7.2, 7.3], higher_is_better=False)


rows = st.lists(st.tuples(st.integers(0, 9), st.floats(1, 9, allow_nan=False), st.integers(0, 20)), max_size=24).map(
    lambda made: [Contender(n, genome, loss, float(cost)) for n, (genome, loss, cost) in enumerate(made)]
)


@given(rows, st.lists(st.integers(0, 20).map(float), max_size=3), st.integers(1, 8))
def test_the_choice_is_the_lowest_losses_below_every_baseline(
    contenders: list[Contender[int]], costs: list[float], count: int
) -> None:
    found = choose_finalists(contenders, costs, count)
    assert len(found) <= count
    assert all(one.cost < cost for one in found for cost in costs)
    assert [one.loss for one in found] == sorted(one.loss for one in found)
    assert len({one.genome for one in found}) == len(found)
    eligible = [one for one in contenders if all(one.cost < cost for cost in costs)]
    firsts = {one.genome: one for one in reversed(eligible)}
    assert len(found) == min(count, len(firsts))
    left = [one for one in firsts.values() if one not in found]
    assert all(one.loss >= found[-1].loss for one in left)


def test_a_recorded_search_gives_the_finalists_that_reading_its_table_gives() -> None:
    """The rule once more, written as a reader would apply it to the list."""
    contenders = [
        Contender(row["id"], row["genome"], row["quality"], row["cache_bytes"]) for row in FRONT["individuals"]
    ]
    costs = [row["cache_bytes"] for row in FRONT["baselines"]]
    found = [one.individual for one in choose_finalists(contenders, costs, 8)]
    ranked = sorted(FRONT["individuals"], key=lambda row: row["quality"])
    below = [row["id"] for row in ranked if row["cache_bytes"] < min(costs)]
    assert found == below[:8]
    assert FRONT["finalists"] == found, "recorded when the protocol ran"

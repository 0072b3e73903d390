"""Choosing from a front, and what may be said beside the baselines."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evodevo.errors import NotFoundError, UsageError
from evodevo.runs.pick import certainty, compare, pick


def name_of(individual: Any) -> str:
    return str(individual.row.details["name"])


def point(quality: float, cache: float) -> dict[str, float]:
    return {"quality": quality, "cache": cache}


FRONT = {
    "best": {0: point(2.0, 1000.0)},
    "good": {0: point(2.1, 400.0)},
    "knee": {0: point(2.2, 200.0)},
    "small": {0: point(3.0, 100.0)},
    "behind": {0: point(3.5, 300.0)},
    "failed": {0: "crash"},
    "waiting": {},
}


@pytest.fixture(scope="module")
def front(recorded: Any) -> Any:
    return recorded(FRONT)


def test_the_front_holds_what_nobody_dominates_best_first(front: Any, recorded: Any) -> None:
    assert [name_of(one) for one in front.front()] == ["best", "good", "knee", "small"]
    run = recorded(FRONT, evaluation={"objectives": ["quality", "cache:maximise"]})
    assert [name_of(one) for one in run.front()] == ["best"], "the direction of a goal counts"
    assert name_of(pick(run, "best:cache").individual) == "best"


@pytest.mark.parametrize(
    ("rule", "where", "name"),
    [
        ("knee", (), "knee"),
        ("best:quality", (), "best"),
        ("best:cache", (), "small"),
        ("best:quality", ("cache<1000",), "good"),
        ("best:quality", ("cache <= 1k",), "best"),
        ("best:quality", ("cache<0.3K",), "knee"),
        ("best:cache", ("quality<2.2",), "good"),
        ("best:cache", ("quality<=2.2",), "knee"),
        ("best:cache", ("quality<3", "cache>200"), "good"),
        ("knee", ("quality>2.5",), "small"),
    ],
)
def test_rules_and_conditions(front: Any, rule: str, where: tuple[str, ...], name: str) -> None:
    chosen = pick(front, rule, where)
    assert name_of(chosen.individual) == name
    assert all(condition in chosen.reason for condition in where)
    assert "own scores" not in chosen.reason, "there are no others"


def test_fresh_seeds_choose_nothing_and_the_reason_says_by_what_it_chose(recorded: Any) -> None:
    searched, other = {0: point(2.0, 400.0), 1: point(2.9, 400.0)}, {0: point(2.1, 300.0), 1: point(2.5, 300.0)}
    chosen = pick(recorded({"best in the search": searched, "best afterwards": other}), "best:quality")
    assert name_of(chosen.individual) == "best in the search"
    assert chosen.reason == "best quality among 2 on the front by the search's own scores"


@pytest.mark.slow
@settings(max_examples=7, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=6))
def test_the_knee_lies_nearest_to_the_ideal_corner(recorded: Any, points: list[tuple[int, int]]) -> None:
    run = recorded({str(number): {0: point(a, b)} for number, (a, b) in enumerate(points)})
    front = [(one.scores["quality"], one.scores["cache"]) for one in run.front()]
    chosen = pick(run).individual
    ranges = [(min(values), max(values)) for values in zip(*front, strict=True)]

    def total(values: tuple[float, float]) -> float:
        return sum((v - low) / (high - low) for v, (low, high) in zip(values, ranges, strict=True) if high > low)

    found = (chosen.scores["quality"], chosen.scores["cache"])
    assert found in front
    assert total(found) == pytest.approx(min(map(total, front)))


@pytest.mark.parametrize(
    ("rule", "where", "error", "words"),
    [
        ("elbow", (), UsageError, "knee, or best:GOAL with one of quality, cache"),
        ("best:", (), UsageError, "goal"),
        ("best:cahce", (), UsageError, "Did you mean 'cache'"),
        ("knee", ("cache<50",), NotFoundError, "nobody of the 4 on the front keeps cache<50"),
        ("knee", ("cahce<50",), UsageError, "Did you mean 'cache'"),
        ("knee", ("cache",), UsageError, "must look like"),
        ("knee", ("cache<-5",), UsageError, "must look like"),
        ("knee", ("cache<5X",), UsageError, "must look like"),
        ("knee", ("cache<" + "9" * 400,), UsageError, "must look like"),
    ],
)
def test_what_cannot_be_chosen_is_said(
    front: Any, rule: str, where: tuple[str, ...], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        pick(front, rule, where)


# Beside the baselines


DRAWN = {"plain": {0: point(2.5, 500.0), 1: point(2.4, 500.0), 2: point(2.6, 500.0)}}


def compared(run: Any, name: str = "one") -> Any:
    (comparison,) = compare(next(one for one in run.individuals() if name_of(one) == name), run)
    return comparison


def test_a_lead_is_judged_on_fresh_seeds(recorded: Any) -> None:
    # The search's own seed flatters it; the fresh ones do not.
    ours = {"one": {0: point(1.0, 400.0), 1: point(2.7, 400.0), 2: point(2.9, 400.0)}}
    found = compared(recorded(ours, drawn=DRAWN))
    assert not found.ahead
    quality, cache = found.verdicts
    assert (quality.ours.mean, quality.ours.low, quality.ours.high, quality.ours.seeds) == (2.8, 2.7, 2.9, 2)
    assert quality.ours.fresh
    assert quality.theirs.fresh
    assert not quality.better
    assert quality.clear
    assert cache.better


def test_it_is_clear_where_the_seeds_do_not_touch(recorded: Any) -> None:
    cases = {
        "apart": ((2.0, 400.0), (2.1, 400.0), True, True),
        "touching": ((2.0, 400.0), (2.45, 400.0), True, False),
        "equal in one goal": ((2.0, 500.0), (2.1, 500.0), True, True),
        "worse in one goal": ((2.0, 501.0), (2.1, 501.0), False, False),
        "equal in both": ((2.5, 500.0), (2.5, 500.0), False, False),
    }
    rows = {name: {0: point(9.0, 9.0), 1: point(*a), 2: point(*b)} for name, (a, b, *_) in cases.items()}
    run = recorded(rows, drawn=DRAWN)
    for name, (_, _, ahead, clear) in cases.items():
        found = compared(run, name)
        assert (found.ahead, found.clear) == (ahead, clear), name
    one_seed_each = compared(recorded({"one": {0: point(1.0, 1.0)}}, drawn={"plain": {0: point(2.0, 2.0)}}))
    assert one_seed_each.ahead
    assert not one_seed_each.clear


def test_a_spread_is_claimed_only_where_there_is_one(recorded: Any) -> None:
    """Quality of one seed has an unknown spread, the cache of a genome has none, and several seeds may touch."""
    one_seed = recorded({"one": {0: point(1.0, 1.0)}}, drawn={"plain": {0: point(2.0, 2.0)}})
    quality, cache = compared(one_seed).verdicts
    assert (quality.spread, quality.clear) == ("unknown", False)
    assert (cache.spread, cache.clear) == ("none", True)
    assert certainty(compared(one_seed).verdicts) == "quality: one seed, its spread is unknown"
    touching = recorded({"one": {0: point(9.0, 9.0), 1: point(2.0, 400.0), 2: point(2.45, 400.0)}}, drawn=DRAWN)
    assert certainty(compared(touching).verdicts) == "quality: within the spread over seeds"
    apart = recorded({"one": {0: point(9.0, 9.0), 1: point(2.0, 400.0), 2: point(2.1, 400.0)}}, drawn=DRAWN)
    assert certainty(compared(apart).verdicts) == ""
    worse = recorded({"one": {0: point(3.0, 1.0)}}, drawn={"plain": {0: point(2.0, 2.0)}})
    assert certainty(compared(worse).verdicts) == "", "what is worse is not excused"


@pytest.mark.parametrize("ours_fresh", [True, False])
def test_a_training_that_was_asked_for_counts_all_its_seeds(recorded: Any, ours_fresh: bool) -> None:
    values = {0: point(1.0, 400.0), 1: point(2.0, 400.0), 2: point(3.0, 400.0)}
    rows = {"one": values if ours_fresh else {0: values[0]}}
    (one,) = recorded(rows, kind="train").individuals()
    summary = one.summary("quality")
    expected = (2.0, 1.0, 3.0, 3) if ours_fresh else (1.0, 1.0, 1.0, 1)
    assert (summary.mean, summary.low, summary.high, summary.seeds) == expected
    assert not summary.fresh, "the search's own seed is among them"
    (searched,) = recorded(rows).individuals()
    assert searched.summary("quality").mean == (2.5 if ours_fresh else 1.0), "a search flatters its own seed"


@pytest.mark.parametrize("ours_fresh", [True, False])
def test_seeds_of_one_kind_are_compared(recorded: Any, ours_fresh: bool) -> None:
    both = {0: point(2.0, 2.0), 1: point(9.0, 9.0), 2: point(9.0, 9.0)}
    own = {0: point(3.0, 3.0)}
    rows, drawn = ({"one": both}, {"plain": own}) if ours_fresh else ({"one": own}, {"plain": both})
    found = compared(recorded(rows, drawn=drawn))
    for verdict in found.verdicts:
        assert not verdict.ours.fresh
        assert not verdict.theirs.fresh
        assert {verdict.ours.mean, verdict.theirs.mean} == {2.0, 3.0}
    assert found.ahead == ours_fresh


def test_a_baseline_without_scores_is_left_out_and_a_run_without_scores_has_nothing_to_pick(recorded: Any) -> None:
    with pytest.raises(NotFoundError, match="no scored individual"):
        pick(recorded({"failed": {0: "crash"}, "waiting": {}}))
    run = recorded({"one": {0: point(1.0, 1.0)}}, drawn={"broken": {0: "crash"}, "plain": {0: point(2.0, 2.0)}})
    chosen = pick(run)
    assert [comparison.baseline for comparison in chosen.comparisons] == ["plain"]

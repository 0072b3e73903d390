"""Every rule of pruning, and what all of them spare (docs/spec/architect_thyself.md#pruning)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evodevo.growth.fitness import FitnessHistory, ModuleHistory
from evodevo.growth.pruning import PruneDecision, judge
from evodevo.growth.spec import PruneSettings

RULES = ("standard", "quantile", "threshold", "patience_usage", "patience_advantage")
OLD = 100


def history_of(fitness: Mapping[str, float], **more: Mapping[str, float]) -> FitnessHistory:
    """Of modules of which this is known; averages stand still, and nobody has an impact."""
    modules = {
        one: ModuleHistory(events=3, fitness=value, mean=value, **{name: table[one] for name, table in more.items()})
        for one, value in fitness.items()
    }
    return FitnessHistory(modules=modules)


def settings_of(**changes: Any) -> PruneSettings:
    return PruneSettings.model_validate(changes)


def events(
    history: FitnessHistory, settings: PruneSettings, count: int, *, age: int = OLD, warming: Sequence[str] = ()
) -> list[PruneDecision]:
    """The same event again and again; nobody goes."""
    verdicts, low = [], dict[str, int]()
    for _ in range(count):
        verdicts.append(judge(history, low, dict.fromkeys(history.modules, age), warming, settings))
        low = verdicts[-1].low
    return verdicts


def named(verdict: PruneDecision) -> list[str]:
    return [one.id for one in verdict.candidates]


GOOD = {f"m{number}": 0.5 for number in range(9)}
BAD = GOOD | {"m4": -1.0}


def test_equally_good_modules_stay_for_twenty_events() -> None:
    history = history_of(GOOD, impact=dict.fromkeys(GOOD, 0.1))
    assert not any(one.candidates for one in events(history, settings_of(), 20))
    # Even if their impact were not looked at, and sums were rounded.
    rounded = {one: 0.1 + 0.2 if number else 0.3 for number, one in enumerate(GOOD)}
    for fitness in (GOOD, rounded):
        assert not any(one.candidates for one in events(history_of(fitness), settings_of(), 20))


@pytest.mark.parametrize(("count", "gone"), [(6, 1), (7, 1), (8, 2), (9, 2), (10, 2), (12, 2)])
def test_the_quantile_always_prunes(count: int, gone: int) -> None:
    """As the paper prints it: good modules go, whatever their impact."""
    rng = np.random.default_rng(count)
    fitness = {str(number): float(value) for number, value in enumerate(1 + 1e-3 * rng.standard_normal(count))}
    history = history_of(fitness, impact=dict.fromkeys(fitness, 9.0))
    for verdict in events(history, settings_of(rule="quantile"), 3):
        assert named(verdict) == sorted(fitness, key=fitness.__getitem__)[:gone]


def test_who_stands_out_goes_after_two_events() -> None:
    first, second = events(history_of(BAD), settings_of(), 2)
    assert not first.candidates
    assert first.low["m4"] == 1
    assert named(second) == ["m4"]
    assert "2 events in a row" in second.candidates[0].reason


def test_events_in_a_row_begin_anew() -> None:
    settings, low = settings_of(patience=3), dict[str, int]()
    for fitness in (BAD, BAD, GOOD, BAD, BAD):
        verdict = judge(history_of(fitness), low, dict.fromkeys(GOOD, OLD), (), settings)
        assert not verdict.candidates
        low = verdict.low
    assert named(judge(history_of(BAD), low, dict.fromkeys(GOOD, OLD), (), settings)) == ["m4"]


def test_who_swings_must_fall_deeper() -> None:
    """Hysteresis: a running standard deviation is subtracted."""
    fitness = {f"m{number}": float(number) for number in range(9)}
    bound = 4 - float(np.std(range(9)))
    assert fitness["m0"] < bound
    steady = history_of(fitness)
    assert named(events(steady, settings_of(), 2)[-1]) == ["m0"]
    swinging = history_of(fitness, variance=dict.fromkeys(fitness, (bound + 0.1) ** 2))
    assert not events(swinging, settings_of(), 2)[-1].candidates


def test_kappa_is_the_distance_from_the_mean() -> None:
    fitness = {f"m{number}": float(number) for number in range(9)}
    assert not events(history_of(fitness), settings_of(kappa=1.6), 5)[-1].candidates
    assert events(history_of(fitness), settings_of(kappa=1.5), 5)[-1].candidates


def test_standard_takes_the_least_fit_alone() -> None:
    fitness = GOOD | {"m1": -1.0, "m2": -1.2}
    assert named(events(history_of(fitness), settings_of(), 4)[-1]) == ["m2"]


def test_thresholds() -> None:
    fitness = {"a": 0.01, "b": 0.2, "c": 0.04, "d": 0.05}
    (verdict,) = events(history_of(fitness), settings_of(rule="threshold", threshold=0.05, least=1), 1)
    assert named(verdict) == ["a", "c"]


@pytest.mark.parametrize(("rule", "what"), [("patience_usage", "usage"), ("patience_advantage", "advantage")])
def test_patience_reads_what_it_is_named_after(rule: str, what: str) -> None:
    low = {"a": 0.01, "b": 0.2, "c": 0.3, "d": 0.4}
    history = history_of(dict.fromkeys(low, 1.0), **{what: low})
    verdicts = events(history, settings_of(rule=rule, threshold=0.05, patience=3), 3)
    assert [named(one) for one in verdicts] == [[], [], ["a"]]
    assert what in verdicts[-1].candidates[0].reason


def test_who_is_needed_stays() -> None:
    impact = dict.fromkeys(BAD, 0.0) | {"m4": 2e-3}
    verdict = events(history_of(BAD, impact=impact), settings_of(tolerance=1e-3), 5)[-1]
    assert not verdict.candidates
    assert "costs 0.002" in verdict.spared["m4"]
    assert events(history_of(BAD, impact=impact), settings_of(tolerance=2e-3), 5)[-1].candidates


@pytest.mark.parametrize("rule", RULES)
@given(data=st.data())
def test_no_rule_touches_the_young_the_warm_and_the_last(rule: str, data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 10))
    ids = [f"m{number}" for number in range(count)]
    numbers = st.lists(st.floats(-1, 1), min_size=count, max_size=count)
    table = {
        name: dict(zip(ids, data.draw(numbers), strict=True)) for name in ("fitness", "usage", "advantage", "impact")
    }
    fitness = table.pop("fitness")
    warming = data.draw(st.sets(st.sampled_from(ids)))
    ages = {one: data.draw(st.integers(0, 4)) for one in ids}
    settings = settings_of(rule=rule, least=data.draw(st.integers(1, 5)), patience=1, kappa=0)
    verdict = judge(history_of(fitness, **table), {}, ages, warming, settings)
    gone = named(verdict)
    assert len(set(gone)) == len(gone)
    assert not gone or count - len(gone) >= settings.least
    for one in gone:
        assert one not in warming
        assert ages[one] >= settings.age
        assert one not in verdict.spared
        if rule == "standard":
            assert table["impact"][one] <= settings.tolerance
    if rule == "standard":
        assert len(gone) <= 1
    assert [fitness[one] for one in gone] == sorted(fitness[one] for one in gone)
    if count <= settings.least:
        assert set(verdict.spared) == set(ids)

"""Every rule of pruning, and what all of them spare (docs/spec/architect_thyself.md#pruning)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evodevo.growth.fitness import FitnessHistory, ModuleHistory
from evodevo.growth.pruning import PruneDecision, counted, judge
from evodevo.growth.spec import PruneSettings

RULES = ("standard", "quantile", "threshold", "patience_usage", "patience_advantage", "unused")
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
BAD = GOOD | {"m4": 0.0}


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
    fitness = {f"m{number}": number / 10 for number in range(9)}
    bound = 0.4 - float(np.std(range(9))) / 10
    assert fitness["m0"] < bound
    steady = history_of(fitness)
    assert named(events(steady, settings_of(), 2)[-1]) == ["m0"]
    swinging = history_of(fitness, variance=dict.fromkeys(fitness, (bound + 0.01) ** 2))
    assert not events(swinging, settings_of(), 2)[-1].candidates


def test_kappa_is_the_distance_from_the_mean() -> None:
    fitness = {f"m{number}": number / 10 for number in range(9)}
    assert not events(history_of(fitness), settings_of(kappa=1.6), 5)[-1].candidates
    assert events(history_of(fitness), settings_of(kappa=1.5), 5)[-1].candidates


def test_standard_takes_the_least_fit_alone() -> None:
    fitness = GOOD | {"m1": 0.02, "m2": 0.0}
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


NUMBERS = {
    "fitness": st.floats(-0.1, 1.1),  # C in [0, 1], cost up to .1, novelty up to .1
    "usage": st.floats(0, 1),
    "advantage": st.floats(-1, 1),
    "impact": st.floats(-1, 1),
    "used": st.sampled_from([0.0, 0.019, 0.02, 0.5]),
    "benefit": st.sampled_from([0.0, 0.29, 0.3, 40.0]),
}
"""What fields of a history can be."""


@pytest.mark.parametrize("rule", RULES)
@given(data=st.data())
def test_no_rule_touches_the_young_the_warm_and_the_last(rule: str, data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 10))
    ids = [f"m{number}" for number in range(count)]
    table = {
        name: dict(zip(ids, data.draw(st.lists(numbers, min_size=count, max_size=count)), strict=True))
        for name, numbers in NUMBERS.items()
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
        if rule == "unused":
            assert table["used"][one] < settings.usage
            assert table["benefit"][one] < settings.benefit
    if rule in ("standard", "unused"):
        assert len(gone) <= 1
    assert [fitness[one] for one in gone] == sorted(fitness[one] for one in gone)
    if count <= settings.least:
        assert set(verdict.spared) == set(ids)


# What is not used


UNUSED = settings_of(rule="unused")


def dead(**more: float) -> dict[str, dict[str, float]]:
    """Of nine good modules one has neither weight nor benefit, but for what is given."""
    used, benefit = dict.fromkeys(GOOD, 0.12), dict.fromkeys(GOOD, 6.0)
    return {
        "used": used | {"m4": more.get("used", 0.0)},
        "benefit": benefit | {"m4": more.get("benefit", 0.0)},
    }


def test_who_is_unused_in_two_probes_goes_whatever_the_others_are_worth() -> None:
    for fitness in (GOOD, BAD, GOOD | {"m4": 1.0}, dict.fromkeys(GOOD, 0.05)):
        first, second = events(history_of(fitness, **dead()), UNUSED, 2)
        assert not first.candidates
        assert "1 probes in a row, and 2 are needed" in first.spared["m4"]
        assert named(second) == ["m4"]
        assert "2 probes in a row" in second.candidates[0].reason
        assert "no benefit on the samples of the probe" in second.candidates[0].reason
        assert set(second.spared) == set(GOOD) - {"m4"}, "nobody chooses among modules that are of use"


def test_a_benefit_below_the_limit_is_said_with_the_level_of_its_interval() -> None:
    last = events(history_of(GOOD, **dead(benefit=0.21)), UNUSED, 2)[-1]
    assert "benefit at most 0.21 points (95 %)" in last.candidates[0].reason


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"used": 0.02}, "2.0% of the router's weight"),
        ({"benefit": 0.3}, "may cost 0.3 points"),
        ({"used": 0.3, "benefit": 9.0}, "30.0% of the router's weight"),
    ],
)
def test_weight_or_benefit_alone_is_a_reason_to_stay(more: dict[str, float], words: str) -> None:
    last = events(history_of(BAD, **dead(**more)), UNUSED, 5)[-1]
    assert not last.candidates
    assert words in last.spared["m4"]


def test_probes_in_a_row_begin_anew() -> None:
    low = dict[str, int]()
    for used in (0.0, 0.5, 0.0):
        low = counted(history_of(GOOD, **dead(used=used)), low, UNUSED)
    assert low["m4"] == 1
    assert named(judge(history_of(GOOD, **dead()), low, dict.fromkeys(GOOD, OLD), (), UNUSED)) == ["m4"]


def test_what_a_record_of_before_lacks_is_no_reason_to_go() -> None:
    last = events(history_of(BAD), UNUSED, 5)[-1]
    assert not last.candidates
    assert "nothing was measured of m4" in last.spared["m4"]


# A history that was recorded


RECORDED = json.loads((Path(__file__).parent / "recorded" / "history.json").read_text(encoding="utf-8"))


DEAD = {"transformer-1-0", "lstm-1", "hybrid-6-0"}
"""In ``history.json`` at the last event; see README.md beside it."""


def replayed(settings: PruneSettings) -> list[list[str]]:
    """The candidates at each recorded event; nobody goes, so that the probes are those of that very zoo."""
    found, low = [], dict[str, int]()
    for entry in RECORDED:
        history = FitnessHistory.model_validate_json(json.dumps(entry["history"]))
        if entry["what"] == "event":
            verdict = judge(history, low, entry["ages"], entry["warming"], settings)
            found.append(named(verdict))
            low = verdict.low
        elif settings.rule == "unused":
            low = counted(history, low, settings)
    return found


def cut_one_by_one(settings: PruneSettings) -> list[str]:
    """Whom the rule names at the last event when each is cut that it named before: one cut per probe."""
    gone: list[str] = []
    while True:
        low, found = dict[str, int](), list[str]()
        for entry in RECORDED:
            modules = {name: one for name, one in entry["history"]["modules"].items() if name not in gone}
            history = FitnessHistory.model_validate_json(json.dumps({"modules": modules}))
            if entry["what"] == "event":
                verdict = judge(history, low, entry["ages"], entry["warming"], settings)
                found, low = named(verdict), verdict.low
            elif settings.rule == "unused":
                low = counted(history, low, settings)
        if not found:
            return gone
        gone += found


def test_the_recorded_modules_are_what_the_readme_tells() -> None:
    last = [entry["history"]["modules"] for entry in RECORDED[-3:]]
    assert len(last[-1]) == 8
    for name in last[-1]:
        idle = all(modules[name]["used"] < 0.02 and modules[name]["benefit"] == 0 for modules in last)
        assert idle == (name in DEAD)


def test_the_recorded_dead_are_found_and_nobody_who_lives() -> None:
    assert set(cut_one_by_one(settings_of(rule="unused"))) == DEAD
    assert all(replayed(settings_of(rule="unused"))[2:]), "somebody is dead from the third event on"


def test_the_rule_of_before_finds_hardly_one() -> None:
    """Its bound is a spread below the mean: with one dead module it may fall below, with several it does not."""
    found = replayed(settings_of())
    assert found == [[], [], ["transformer-1-0"], *[[]] * 5]
    assert not cut_one_by_one(settings_of())


def test_a_module_that_was_cut_is_not_missed_in_any_answer() -> None:
    """At each recorded event whoever is named changes no answer, then and at the probe before."""
    found = replayed(settings_of(rule="unused"))
    places = [place for place, entry in enumerate(RECORDED) if entry["what"] == "event"]
    for place, names in zip(places, found, strict=True):
        for name in names:
            for entry in RECORDED[place - 1 : place + 1]:
                assert entry["history"]["modules"][name]["benefit"] < 0.3
                assert entry["history"]["modules"][name]["used"] < 0.02

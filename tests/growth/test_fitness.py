"""Fitness follows its equations, ids and nothing else; clones lose (docs/spec/architect_thyself.md#laws)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import strategies as st

from evodevo.growth.fitness import (
    FitnessHistory,
    assess,
    complementarity,
    diversity,
    novelty,
    redundancies,
    relative_costs,
)
from evodevo.growth.pairwise import Pairs
from evodevo.growth.probes import ModuleProbe
from evodevo.growth.spec import FitnessSettings

IDS = ("a", "b", "c")
NUMBER = st.floats(-3, 3, allow_nan=False)


def probe_of(
    usage: Mapping[str, float],
    impact: Mapping[str, float],
    *,
    advantage: Mapping[str, float] | None = None,
    distance: Callable[[str, str], float] = lambda a, b: 0.5,
    apart: float = 0.3,
    right: Mapping[str, Sequence[bool]] | None = None,
) -> ModuleProbe:
    """What was measured, said directly."""
    ids = tuple(usage)
    return ModuleProbe(
        ids=ids,
        samples=4,
        loss=1.0,
        accuracy=0.5,
        dense_loss=1.0,
        uniform_loss=1.2,
        entropy=0.7,
        usage=dict(usage),
        impact=dict(impact),
        advantage=dict(advantage or dict.fromkeys(ids, 0.0)),
        alone={one: np.array((right or {}).get(one, [True] * 4), np.bool_) for one in ids},
        genotype_distance=Pairs.of_each(ids, distance),
        output_distance=Pairs.of_each(ids, lambda a, b: apart),
    )


def flat(ids: Sequence[str] = IDS, value: float = 1.0) -> dict[str, float]:
    return dict.fromkeys(ids, value)


def test_the_first_event_is_the_equations() -> None:
    """Eqs. 69 to 71 by hand."""
    probe = probe_of({"a": 0.6, "b": 0.3, "c": 0.1}, {"a": 0.2, "b": -0.5, "c": 0.1})
    settings = FitnessSettings(contribution=2.0, cost=0.5, novelty=0.25, spread=4.0)
    history = assess(FitnessHistory(), probe, {"a": 1.0, "b": 0.2, "c": 0.4}, settings)
    redundancy = math.exp(-4.0 * 0.5**2)
    contribution = {"a": 1.0, "b": 0.5 * 0.5, "c": 0.5 * 0.1 / 0.6 + 0.5 * 0.5}
    for one, cost in (("a", 1.0), ("b", 0.2), ("c", 0.4)):
        module = history.modules[one]
        assert module.contribution == pytest.approx(contribution[one])
        assert module.redundancy == pytest.approx(redundancy)
        assert module.fitness == pytest.approx(2 * contribution[one] - 0.5 * cost + 0.25 * (1 - redundancy))
        assert module.spread == 0
    assert novelty(history) == pytest.approx(1 - redundancy)


def test_averages_move_and_impact_does_not() -> None:
    settings = FitnessSettings(rate=0.25)
    first = probe_of({"a": 0.5, "b": 0.5}, {"a": 0.4, "b": 0.0}, advantage={"a": 1.0, "b": 0.0})
    second = probe_of({"a": 0.1, "b": 0.9}, {"a": 0.0, "b": 0.2}, advantage={"a": 0.0, "b": 2.0})
    history = assess(assess(FitnessHistory(), first, flat("ab"), settings), second, flat("ab"), settings)
    a = history.modules["a"]
    assert a.usage == pytest.approx(0.75 * 0.5 + 0.25 * 0.1)
    assert a.advantage == pytest.approx(0.75)
    assert a.impact == 0
    assert a.contribution == pytest.approx(0.75 * 1.0 + 0.25 * (0.5 * 0.1 / 0.9))
    assert a.events == 2


def test_running_mean_and_spread_are_those_of_a_loop() -> None:
    rate, values = 0.3, [0.1, 0.9, 0.4, 0.4]
    settings = FitnessSettings(kind="advantage", rate=rate)
    history, mean, variance, average = FitnessHistory(), 0.0, 0.0, 0.0
    for number, value in enumerate(values):
        history = assess(history, probe_of({"a": 1.0}, {"a": 0.0}, advantage={"a": value}), {"a": 1.0}, settings)
        average = value if number == 0 else (1 - rate) * average + rate * value
        if number == 0:
            mean, variance = average, 0.0
        else:
            variance = (1 - rate) * (variance + rate * (average - mean) ** 2)
            mean += rate * (average - mean)
    module = history.modules["a"]
    assert module.fitness == pytest.approx(average)
    assert module.mean == pytest.approx(mean)
    assert module.spread == pytest.approx(math.sqrt(variance))


def test_usage_and_loss_are_shares() -> None:
    """Eq. 92, normalised over modules; harm counts as nothing."""
    probe = probe_of({"a": 0.6, "b": 0.4}, {"a": -9.0, "b": 0.2})
    fitness = assess(FitnessHistory(), probe, {}, FitnessSettings(kind="usage_loss")).fitness
    assert fitness == pytest.approx({"a": 0.6 / 1.2, "b": 0.6 / 1.2})


@pytest.mark.parametrize("kind", ["contribution", "usage_loss", "advantage"])
def test_nobody_helps_and_nothing_is_nan(kind: str) -> None:
    """A harmful module scores nothing, and all deltas at most 0 are no division by 0."""
    settings = FitnessSettings.model_validate({"kind": kind, "novelty": 0.0, "cost": 0.0})
    harm = assess(FitnessHistory(), probe_of({"a": 0.0, "b": 0.0}, {"a": -0.3, "b": 0.0}), flat("ab"), settings)
    assert harm.fitness == {"a": 0.0, "b": 0.0}
    assert all(module.contribution == 0 for module in harm.modules.values())


def test_a_clone_makes_both_less_fit() -> None:
    """All else equal."""
    settings = FitnessSettings()
    apart = {"a": 0.9, "b": 0.2, "c": 0.6}

    def with_third(third: float) -> FitnessHistory:
        """Whether the third module is new, or a clone of the first."""

        def distance(one: str, other: str) -> float:
            return third if {one, other} == {"a", "c"} else abs(apart[one] - apart[other])

        probe = probe_of({"a": 0.4, "b": 0.3, "c": 0.3}, {"a": 0.2, "b": 0.1, "c": 0.1}, distance=distance)
        return assess(FitnessHistory(), probe, flat(), settings)

    new, cloned = with_third(0.8), with_third(0.0)
    for one in ("a", "c"):
        assert cloned.fitness[one] < new.fitness[one]
    assert cloned.fitness["b"] == pytest.approx(new.fitness["b"])
    assert novelty(cloned) < novelty(new)


def test_a_module_that_is_alone_is_not_redundant() -> None:
    assert redundancies(probe_of({"a": 1.0}, {"a": 0.0}), 4.0) == {"a": 0.0}
    assert diversity(probe_of({"a": 1.0}, {"a": 0.0})) == 0


def test_diversity_is_a_mean_over_all_places() -> None:
    """Eq. 19 with both terms in [0, 1]."""
    probe = probe_of(flat(), flat(), distance=lambda a, b: 1.5, apart=0.6)
    assert diversity(probe) == pytest.approx(6 / 9 * (0.75 + 0.6))


def test_who_has_gone_is_forgotten_and_newborns_begin() -> None:
    settings = FitnessSettings()
    history = assess(FitnessHistory(), probe_of(flat(), flat()), flat(), settings)
    later = assess(history, probe_of(flat(("c", "d")), flat(("c", "d"))), flat(("c", "d")), settings)
    assert {one: module.events for one, module in later.modules.items()} == {"c": 2, "d": 1}
    assert FitnessHistory.model_validate_json(later.model_dump_json()) == later


def test_complementarity_counts_where_exactly_one_is_right() -> None:
    right = {"a": [True, True, False, False], "b": [True, False, True, False], "c": [True, True, False, False]}
    probe = probe_of(flat(), flat(), right=right)
    fitness = {"a": 3.0, "b": 2.0, "c": 1.0}
    pairs = complementarity(probe, fitness)
    spread = float(np.std([3, 2, 1]))
    assert pairs.of("a", "b") == pairs.of("b", "a") == 0.0  # b has the mean fitness
    assert pairs.of("b", "c") == pytest.approx(0.5 * -1 / spread)
    assert pairs.of("a", "c") == 0


def test_costs_are_shares_of_the_dearest() -> None:
    assert relative_costs({"a": 10.0, "b": 40.0}) == {"a": 0.25, "b": 1.0}
    assert relative_costs({"a": 0.0}) == {"a": 0.0}
    clone = relative_costs({"a": 10.0, "b": 40.0, "c": 40.0})
    assert clone["a"] == 0.25


def test_nothing_depends_on_order() -> None:
    probe = probe_of({"a": 0.6, "b": 0.3, "c": 0.1}, {"a": 0.2, "b": -0.5, "c": 0.1})
    turned = replace(
        probe,
        ids=probe.ids[::-1],
        genotype_distance=Pairs(probe.ids[::-1], probe.genotype_distance.values[::-1, ::-1]),
    )
    costs = {"a": 1.0, "b": 0.2, "c": 0.4}
    assert (
        assess(FitnessHistory(), turned, costs, FitnessSettings()).modules
        == assess(FitnessHistory(), probe, costs, FitnessSettings()).modules
    )


def test_the_share_of_steps_is_a_price_of_its_own() -> None:
    probe = probe_of({"a": 0.6, "b": 0.4}, {"a": 0.2, "b": 0.2})
    settings, costs = FitnessSettings(cost=0.1), {"a": 1.0, "b": 0.5}
    plain = assess(FitnessHistory(), probe, costs, settings).fitness
    priced = assess(FitnessHistory(), probe, costs, settings, {"a": 0.3, "b": 0.05}).fitness
    assert priced["a"] - plain["a"] == pytest.approx(0.1 - 0.3)
    assert priced["b"] - plain["b"] == pytest.approx(0.05 - 0.05)


def test_the_last_probe_is_kept_beside_the_averages() -> None:
    first = replace(probe_of({"a": 0.5}, {"a": 0.1}), benefit={"a": 7.0})
    second = replace(probe_of({"a": 0.01}, {"a": 0.1}), benefit={"a": 0.2})
    history = assess(
        assess(FitnessHistory(), first, flat("a"), FitnessSettings()), second, flat("a"), FitnessSettings()
    )
    module = history.modules["a"]
    assert (module.used, module.benefit) == (0.01, 0.2)
    assert module.usage > 0.02
    assert FitnessHistory.model_validate_json(history.model_dump_json()) == history
    before = {"modules": {"a": {"events": 3, "usage": 0.1}}}
    assert (
        FitnessHistory.model_validate(before)
        .model_dump(mode="json")["modules"]["a"]
        .keys()
        .isdisjoint({"used", "benefit"})
    )

"""Rewards: their terms, their signs, and the unit of validation (docs/spec/architect_thyself.md#rewards)."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evodevo.growth.rewards import RewardScale, RewardState, reward
from evodevo.growth.spec import RewardSettings

BEFORE = RewardState(value=0.6, loss=0.9, cost=1.0, novelty=0.7, diversity=0.8, entropy=1.1)
AFTER = RewardState(value=0.7, loss=0.8, cost=1.3, novelty=0.6, diversity=0.75, entropy=1.2)
CURVE = (0.6, 0.65, 0.72, 0.7)


def settings_of(**changes: Any) -> RewardSettings:
    return RewardSettings.model_validate(changes)


def total(before: RewardState, after: RewardState, **changes: Any) -> float:
    """With an earlier change of 0.2."""
    found, _ = reward(before, after, CURVE, RewardScale().seen(0.2), settings_of(**changes))
    return found.total


def test_change_is_the_equation_with_the_sign_repaired() -> None:
    scale = RewardScale().seen(0.2)
    found, later = reward(BEFORE, AFTER, CURVE, scale, settings_of(cost=0.3, diversity=0.2, instability=0.5))
    size = np.sqrt((0.2**2 + 0.1**2) / 2)
    assert found.terms == pytest.approx(
        {"value": 0.1 / size, "cost": -0.3 * 0.3, "novelty": 0.2 * 0.6, "instability": -0.5 * np.std(CURVE) / size}
    )
    assert found.total == pytest.approx(sum(found.terms.values()))
    assert later.size == pytest.approx(size)


def test_absolute_and_entropy() -> None:
    assert total(BEFORE, AFTER, kind="absolute", cost=0.3, diversity=0.2) == pytest.approx(-0.8 - 0.39 + 0.15)
    assert total(BEFORE, AFTER, kind="entropy", diversity=0.2) == pytest.approx(-0.8 + 0.24)


def test_parameters_have_a_price_of_their_own() -> None:
    """Eq. 95: beside that of FLOPs; the change is priced, or of ``absolute`` what there is."""
    before, after = replace(BEFORE, parameters=1.0), replace(AFTER, parameters=1.5)
    for kind, priced in (("change", 0.5), ("absolute", 1.5), ("entropy", 0.0)):
        free, dear = (total(before, after, kind=kind, parameters=one) for one in (0.0, 0.4))
        assert free - dear == pytest.approx(0.4 * priced)


@pytest.mark.parametrize("kind", ["change", "absolute"])
def test_a_clone_is_no_gain(kind: str) -> None:
    """It costs, and it is like another; validation is as it was."""
    same = replace(BEFORE, value=0.65, loss=0.85)
    clone = replace(same, cost=1.2, novelty=0.5, diversity=0.7)
    assert total(BEFORE, clone, kind=kind) < total(BEFORE, same, kind=kind)
    alike = replace(same, novelty=0.5, diversity=0.7)
    assert total(BEFORE, alike, kind=kind) < total(BEFORE, same, kind=kind)


@given(st.floats(-1, 1), st.floats(0.001, 1))
def test_better_validation_is_better(value: float, more: float) -> None:
    low, high = (replace(AFTER, value=one, loss=-one) for one in (value, value + more))
    assert total(BEFORE, high, kind="absolute") > total(BEFORE, low, kind="absolute")
    # Both divided by the same earlier changes, as the newest counts, too.
    scale = RewardScale(count=10**6, squares=10**4)
    found = [reward(BEFORE, one, CURVE, scale, settings_of())[0].total for one in (low, high)]
    assert found[1] > found[0]


def test_the_unit_of_validation_does_not_matter() -> None:
    def course(unit: float) -> list[float]:
        scale, rewards, values = RewardScale(), [], (0.5, 0.6, 0.55, 0.7)
        for earlier, later in pairwise(values):
            ends = [replace(BEFORE, value=unit * one) for one in (earlier, later)]
            found, scale = reward(ends[0], ends[1], [unit * earlier, unit * later], scale, settings_of())
            rewards.append(found.total)
        return rewards

    assert course(1.0) == pytest.approx(course(100.0))


def test_the_first_change_and_none_at_all() -> None:
    settings = settings_of(cost=0, diversity=0, instability=0)
    for change, wanted in ((0.01, 1.0), (-3.0, -1.0), (0.0, 0.0)):
        found, _ = reward(BEFORE, replace(BEFORE, value=0.6 + change), (), RewardScale(), settings)
        assert found.total == pytest.approx(wanted)


def test_equal_gains_neither_vanish_nor_explode() -> None:
    scale, settings = RewardScale(), settings_of(cost=0, diversity=0)
    for _ in range(20):
        found, scale = reward(BEFORE, AFTER, (), scale, settings)
        assert found.total == pytest.approx(1.0)
    assert RewardScale.model_validate_json(scale.model_dump_json()) == scale


def test_unrest_is_punished() -> None:
    calm, restless = ([0.7, 0.7, 0.7], [0.5, 0.9, 0.7])
    found = [reward(BEFORE, AFTER, curve, RewardScale(), settings_of())[0].total for curve in (calm, restless)]
    assert found[1] < found[0]


def test_flops_that_are_priced_in_steps_are_a_term_in_the_unit_of_the_metric() -> None:
    before, after = RewardState(value=0.5, loss=1.0, cost=1.0), RewardState(value=0.6, loss=0.9, cost=1.25)
    plain, scale = reward(before, after, (), RewardScale(), RewardSettings())
    priced, _ = reward(before, after, (), RewardScale(), RewardSettings(), 0.03)
    assert plain.terms["cost"] == pytest.approx(-0.1 * 0.25)
    assert priced.terms["cost"] == pytest.approx(-0.03 / scale.size)
    assert priced.terms["cost"] / priced.terms["value"] == pytest.approx(-0.03 / 0.1)

"""Kinds of attributes keep their laws; shares as docs/spec/architect_thyself.md#attributes has them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evodevo.module_zoo.modules.attributes import Category, Factor, Grid, Kind, Share, Subset
from evodevo.module_zoo.modules.operator_text import OperatorText
from evodevo.module_zoo.modules.zoo import ARCHETYPES
from evodevo.operators.layers.liv import fitting_classes
from evodevo.randomness import generator

KINDS: dict[str, Kind] = {
    "factor": Factor(0.25, 4.0, 1.0),
    "share": Share(0.5, 0.1),
    "grid": Grid((1, 3, 5, 7), 3),
    "heads": Grid((1, 2, 4, 8, 16), 4, divides=True),
    "category": Category(("relu", "gelu", "silu"), "gelu"),
    "boolean": Category((False, True), True),
    "subset": Subset((1, 3, 5, 7, 9), (3, 5, 7)),
    "operator": OperatorText(),
}
WIDTH = 24
DRAWS = 4000


@pytest.mark.parametrize("name", sorted(KINDS))
@given(seed=st.integers(0, 2**32), scale=st.floats(0, 100), share=st.floats(0, 1))
@settings(max_examples=15, deadline=None)
def test_values_stay_allowed(name: str, seed: int, scale: float, share: float) -> None:
    kind, rng = KINDS[name], generator(seed)
    a, b = kind.draw(rng, WIDTH), kind.draw(rng, WIDTH)
    found = [a, b, kind.near(kind.default, WIDTH)]
    found += [kind.mutate(a, rng, scale, WIDTH), kind.cross(a, b, share, rng, WIDTH)]
    for value in found:
        assert kind.allows(value, WIDTH), value
        assert kind.near(value, WIDTH) == value
        assert kind.difference(value, value) == 0
        assert 0 <= kind.difference(value, a) <= 1
        assert kind.difference(value, a) == kind.difference(a, value)
    assert kind.mutate(a, rng, 0, WIDTH) == a
    if not str(a).startswith("T"):  # children of one H-Model may differ from it in the order of layers
        assert kind.cross(a, a, share, rng, WIDTH) == a


def test_what_is_of_another_type_or_range_is_not_allowed() -> None:
    wrong = {
        "factor": [0.2, 4.1, math.nan, math.inf, "1", True, None, (1,)],
        "share": [-0.1, 0.51, math.nan, "x", False],
        "grid": [0, 2, 9, 3.0, "3", True],
        "heads": [16, 3, 0, -1, True],
        "category": ["tanh", "", 1, None, True],
        "boolean": [0, 1, "true", None],
        "subset": [(), (2,), (5, 3), (3, 3), [3], 3, (True,), (3.0,)],
        "operator": ["", "Rec-9", "1.2", 3, "T9 | tr", "T2 a1 r1 sum dense | wombat", "SA 1"],
    }
    for name, values in wrong.items():
        for value in values:
            assert not KINDS[name].allows(value, WIDTH), (name, value)
        assert KINDS[name].allowed(WIDTH)


def mutants(kind: Kind, value: object, scale: float = 1.0) -> list[object]:
    rng = np.random.default_rng(0)
    return [kind.mutate(value, rng, scale, 16) for _ in range(DRAWS)]


def test_numbers_move_by_a_log_normal_factor_and_dropout_by_a_logit_normal() -> None:
    logarithms = np.log([float(one) for one in mutants(KINDS["factor"], 1.0)])
    assert abs(logarithms.mean()) < 0.015
    assert abs(logarithms.std() - 0.2) < 0.01
    wide = np.log([float(one) for one in mutants(KINDS["factor"], 1.0, 2.0)])
    assert abs(wide.std() - 0.4) < 0.02
    moved = np.array(mutants(KINDS["share"], 0.25), dtype=float)
    logits = np.log(moved / (0.5 - moved))
    assert abs(logits.mean()) < 0.04
    assert abs(logits.std() - 0.5) < 0.03
    from_nothing = np.array(mutants(KINDS["share"], 0.0), dtype=float)
    assert (from_nothing > 0).mean() > 0.5
    assert (np.array(mutants(KINDS["share"], 0.01), dtype=float) == 0).any()


def test_whole_numbers_step_with_chance_three_tenths_and_categories_change_with_one_tenth() -> None:
    steps = np.array(mutants(KINDS["grid"], 5), dtype=int)
    assert set(steps) == {3, 5, 7}
    assert abs((steps != 5).mean() - 0.3) < 0.03
    assert abs((steps == 3).mean() - (steps == 7).mean()) < 0.03
    drawn = mutants(KINDS["category"], "relu")
    assert abs(sum(one != "relu" for one in drawn) / DRAWS - 0.1 * 2 / 3) < 0.02
    assert set(drawn) == {"relu", "gelu", "silu"}


def test_crossover_is_convex_for_numbers_and_either_or_for_categories() -> None:
    rng = np.random.default_rng(1)
    assert KINDS["factor"].cross(1.0, 3.0, 0.25, rng, 16) == pytest.approx(2.5)
    assert KINDS["share"].cross(0.1, 0.3, 0.5, rng, 16) == pytest.approx(0.2)
    assert KINDS["grid"].cross(1, 7, 0.9, rng, 16) == 1
    assert KINDS["heads"].cross(2, 16, 0.5, rng, 24) == 8
    taken = [KINDS["category"].cross("relu", "silu", 0.8, rng, 16) for _ in range(DRAWS)]
    assert set(taken) == {"relu", "silu"}
    assert abs(taken.count("relu") / DRAWS - 0.8) < 0.03
    both = {KINDS["subset"].cross((1, 3), (3, 9), 0.5, rng, 16) for _ in range(200)}
    assert both == {(3,), (1, 3), (3, 9), (1, 3, 9)}


def test_differences_are_shares_of_the_range() -> None:
    for kind, a, b, share in (
        ("factor", 0.25, 4.0, 1),
        ("factor", 0.25, 1.0, 0.5),
        ("share", 0.0, 0.25, 0.5),
        ("grid", 1, 5, 2 / 3),
        ("category", "relu", "silu", 1),
        ("subset", (1, 3), (3, 5, 7), 3 / 5),
    ):
        assert KINDS[kind].difference(a, b) == pytest.approx(share), kind


def test_operators_and_heads_are_those_that_the_width_allows() -> None:
    assert "SA-1" in fitting_classes(64)
    assert "Rec-1" in fitting_classes(16)
    assert fitting_classes(4) == ()
    kind, heads, rng = OperatorText(), KINDS["heads"], np.random.default_rng(0)
    assert str(kind.draw(rng, 4)).startswith("T")
    drawn = [str(kind.draw(rng, 16)) for _ in range(200)]
    assert 20 < sum(one.startswith("T") for one in drawn) < 70
    assert {heads.draw(rng, 12) for _ in range(100)} == {1, 2, 4}
    assert {heads.draw(rng, 7) for _ in range(20)} == {1}
    assert (heads.near(16, 12), heads.near(4, 18)) == (4, 2)


def test_h_models_mutate_by_their_own_space() -> None:
    kind, start = KINDS["operator"], "T2 a1 r1 sum dense | tr mlp"
    rng = np.random.default_rng(0)
    changed = [one for one in (str(kind.mutate(start, rng, 1.0, 16)) for _ in range(300)) if one != start]
    assert 75 < len(changed) < 150
    near = [one for one in changed if one.startswith("T") and kind.difference(one, start) < 0.35]
    assert len(near) > len(changed) / 2


def test_every_default_is_allowed_where_the_family_is() -> None:
    for name in ARCHETYPES:
        for kind in ARCHETYPES.get(name).attributes.values():
            assert kind.allows(kind.near(kind.default, 64), 64)
            assert kind.near(kind.default, 64) == kind.default

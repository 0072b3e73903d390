"""Every strategist in the table is tested by being listed."""

from __future__ import annotations

from typing import get_args

import pytest
import torch

from evodevo.errors import UsageError
from evodevo.spaces.zoo_growth import BirthSettings, CapSettings, GrowthSettings, RewardSettings
from evodevo.spaces.zoo_growth import Strategist as Name
from evodevo.strategist.base import STRATEGISTS, Strategist, create
from evodevo.strategist.settings import HeuristicSettings, LearningSettings, StrategistSettings, settings_for
from evodevo.testing.strategists import StrategistTests

torch.set_num_threads(1)


def _suite(name: str) -> type[StrategistTests]:
    def make_strategist(self: StrategistTests, *, seed: int = 0) -> Strategist:
        return create(name, seed=seed)

    return type(f"Test_{name}", (StrategistTests,), {"make_strategist": make_strategist})


for _name in STRATEGISTS.names():
    globals()[f"Test_{_name}"] = _suite(_name)


def test_the_table_has_what_settings_can_name() -> None:
    assert {name for name in STRATEGISTS if not name.startswith("testing.")} == set(get_args(Name))
    for name in STRATEGISTS:
        assert STRATEGISTS.get(name).name == name


def test_an_unknown_one_is_named() -> None:
    with pytest.raises(UsageError, match="reinforce"):
        create("reinforced")


def test_a_run_says_what_is_discounted_which_cost_is_held_and_how_parents_are_chosen() -> None:
    growth = GrowthSettings(
        reward=RewardSettings(discount=0.5),
        caps=CapSettings(target_flops=7e6),
        birth=BirthSettings(selection=3.0),
    )
    found = settings_for(growth, StrategistSettings(learning=LearningSettings(width=8)))
    assert found.learning == LearningSettings(width=8, discount=0.5, target_cost=7e6)
    assert found.heuristic == HeuristicSettings(selection=3.0)
    assert settings_for(GrowthSettings()) == StrategistSettings()

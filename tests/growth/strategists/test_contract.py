"""Every strategist in the table is tested by being listed."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from evodevo.errors import UsageError
from evodevo.growth.spec import BirthSettings, CapSettings, GrowthSettings, RewardSettings
from evodevo.growth.strategists.base import STRATEGISTS, Strategist, create
from evodevo.growth.strategists.settings import settings_for
from evodevo.growth.strategists.spec import HeuristicSettings, LearningSettings, StrategistSettings
from evodevo.settings import validate
from evodevo.testing.strategists import StrategistTests

torch.set_num_threads(1)


def _suite(name: str) -> type[StrategistTests]:
    def make_strategist(self: StrategistTests, *, seed: int = 0) -> Strategist:
        return create(name, seed=seed)

    return type(f"Test_{name}", (StrategistTests,), {"make_strategist": make_strategist})


for _name in STRATEGISTS.names():
    globals()[f"Test_{_name}"] = _suite(_name)


def test_the_table_has_what_settings_can_name() -> None:
    for name in STRATEGISTS:
        assert STRATEGISTS.get(name).name == name
        assert GrowthSettings(strategist=name).strategist == name


def test_an_unknown_one_is_named() -> None:
    with pytest.raises(UsageError, match="reinforce"):
        create("reinforced")


def test_a_run_says_what_is_discounted_which_cost_is_held_and_how_parents_are_chosen() -> None:
    growth = GrowthSettings(
        reward=RewardSettings(discount=0.5),
        caps=CapSettings(target_flops=7e6),
        birth=BirthSettings(selection=3.0),
        policy=StrategistSettings(learning=LearningSettings(width=8, clip=0.3)),
    )
    found = settings_for(growth)
    assert found.learning == LearningSettings(width=8, clip=0.3, discount=0.5, target_cost=7e6)
    assert found.heuristic == HeuristicSettings(selection=3.0)
    assert settings_for(GrowthSettings()) == StrategistSettings()


@pytest.mark.parametrize(
    ("policy", "place"),
    [
        ({"heuristic": {"selection": 2.0}}, "birth.selection"),
        ({"learning": {"discount": 0.5}}, "reward.discount"),
        ({"learning": {"target_cost": 5.0}}, "caps.target_flops"),
    ],
)
def test_what_the_run_says_elsewhere_is_not_said_twice(policy: dict[str, Any], place: str) -> None:
    with pytest.raises(UsageError, match=place):
        validate(GrowthSettings, {"policy": policy}, what="growth")

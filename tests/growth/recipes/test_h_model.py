"""The recipe of an H-Model that grows: the same start for all, checked before anything is trained."""

from __future__ import annotations

from typing import Any

import pytest

from evodevo.experiments.procedures import PROCEDURES
from evodevo.experiments.recipe import ExperimentSettings
from evodevo.experiments.settings import training_settings
from evodevo.growth.h_model.growable import GrowableHModel
from evodevo.growth.recipes.growing import FIXED
from evodevo.growth.recipes.h_model import STARTS
from evodevo.h_model.network import HModelNetwork
from evodevo.runs.resolve import resolve

NAME = "h_model.growing"


def made(driver: Any = "grow", size: str = "quick", **more: Any) -> ExperimentSettings:
    settings = resolve(NAME, size=size, driver=driver, **{"overrides": {}, **more})
    assert isinstance(settings, ExperimentSettings)
    return settings


@pytest.mark.parametrize("driver", ["train", "grow"])
@pytest.mark.parametrize("size", ["quick", "full"])
def test_all_begin_alike_and_are_checked(driver: str, size: str) -> None:
    settings = made(driver, size)
    arms = settings.experiment.arms
    assert {plan.name for plan in arms} == {"grown by ppo", "grown by random", "grown by heuristic", FIXED}
    starts = {str(plan.cell["start"]) for plan in arms}
    assert len(starts) == (1 if size == "quick" else len(STARTS))
    for name in starts:
        networks = {plan.network.model_dump_json() for plan in arms if plan.cell["start"] == name}
        assert len(networks) == 1
    for arm in settings.experiment.trainings():
        PROCEDURES.get("grow").check(settings.evaluation, arm)
        training_settings(settings.evaluation, arm)
        assert isinstance(arm.network, HModelNetwork)
        families = [one.genotype.archetype for one in GrowableHModel.of(arm.network.structure).modules]
        assert tuple(families) == STARTS[str(arm.cell["start"])]
        assert not GrowableHModel.of(arm.network.structure).opaque


def test_users_choose_strategists_opponents_and_events() -> None:
    settings = made(overrides={"grow": {"strategist": "heuristic", "events": {"count": 4}}})
    assert [plan.name for plan in settings.experiment.arms] == ["grown by heuristic", FIXED]
    assert settings.evaluation.options["grow"]["events"] == {"count": 4}
    assert settings.evaluation.options["grow"]["birth"] == {"most": 6}
    beside = [plan.name for plan in made(baselines="quick").experiment.arms]
    assert beside[-2:] == ["Tr(I+H+O)", "constant c = 0.5"]

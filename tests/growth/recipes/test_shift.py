"""The experiment on data that shift: who races when, and that all arms share the data and the FLOPs."""

from __future__ import annotations

from typing import Any

import pytest

from evodevo.errors import UsageError
from evodevo.experiments.procedures import PROCEDURES
from evodevo.experiments.recipe import ExperimentSettings
from evodevo.experiments.settings import procedure_options, task_settings, training_settings
from evodevo.growth.recipes.shift import AGAIN, AT, NO_MODULE
from evodevo.growth.spec import GrowthSettings
from evodevo.module_zoo.modules.zoo import start_zoo
from evodevo.runs.resolve import resolve
from evodevo.settings import validate
from evodevo.tasks.base import TASKS

NAMES = [module.id for module in start_zoo(32)]
ARMS = [AGAIN, "raced", "fixed", *(f"{name} alone" for name in NAMES), NO_MODULE]


def shifting(size: str = "full", **changes: Any) -> ExperimentSettings:
    settings = resolve("module_zoo.shift", size=size, driver="grow", overrides=changes)
    assert isinstance(settings, ExperimentSettings)
    return settings


def grown(settings: ExperimentSettings) -> dict[str, GrowthSettings]:
    """Options of each arm."""
    return {
        trial.name: validate(GrowthSettings, procedure_options(settings.evaluation, trial), what=trial.name)
        for trial in settings.experiment.trainings()
        if trial.seed == 0
    }


@pytest.mark.parametrize("size", ["quick", "full"])
@pytest.mark.parametrize("budget", [None, 3e11])
def test_all_arms_share_shift_and_budget_and_two_race(size: str, budget: float | None) -> None:
    settings = shifting(size, **({} if budget is None else {"evaluation": {"training": {"budget": {"flops": budget}}}}))
    options = grown(settings)
    assert list(options) == ARMS
    assert {(one.shift.kind, one.shift.at) for one in options.values()} == {("modality", AT)}
    assert {one.events.count for one in options.values()} == {0}
    assert [name for name, one in options.items() if one.shift.race.share] == [AGAIN]
    assert [name for name, one in options.items() if one.strategist != "fixed"] == [AGAIN, "raced"]
    assert options[AGAIN].race == options["raced"].race
    assert options[AGAIN].race.share > 0
    trials = {trial.name: trial for trial in settings.experiment.trainings() if trial.seed == 0}
    assert len({training_settings(settings.evaluation, trial).budget.flops for trial in trials.values()}) == 1
    for name in NAMES:
        assert [module.id for module in trials[f"{name} alone"].network.structure.live] == [name]  # type: ignore[union-attr]
    assert len(trials["fixed"].network.structure.live) == len(NAMES)  # type: ignore[union-attr]


@pytest.mark.parametrize("size", ["quick", "full"])
def test_a_user_changes_the_shift_of_all_and_the_race_of_one(size: str) -> None:
    options = grown(shifting(size, grow={"shift": {"at": 0.3, "lacks": "image", "race": {"share": 0.07}}}))
    assert {(one.shift.at, one.shift.lacks) for one in options.values()} == {(0.3, "image")}
    assert {name: one.shift.race.share for name, one in options.items() if one.shift.race.share} == {AGAIN: 0.07}


def test_classes_shift_where_the_data_have_one_input() -> None:
    options = grown(shifting(data="anywhere/fashion_mnist"))
    assert {one.shift.kind for one in options.values()} == {"classes"}


@pytest.mark.parametrize("size", ["quick", "full"])
def test_every_arm_can_begin(size: str) -> None:
    settings = shifting(size, evaluation={"task_settings": {"questions": 4}})
    task = TASKS.get(settings.evaluation.task).open(task_settings(settings.evaluation, {}), None)
    for trial in settings.experiment.trainings():
        PROCEDURES.get(trial.procedure).check(settings.evaluation, trial)
        PROCEDURES.get(trial.procedure).check_task(settings.evaluation, trial, task)


def test_a_zoo_in_which_nothing_can_race_is_refused() -> None:
    with pytest.raises(UsageError, match="the zoo has one"):
        shifting(zoo={"modules": "mlp"})


def test_it_names_its_arms_itself() -> None:
    with pytest.raises(UsageError, match="leave --baselines out"):
        resolve("module_zoo.shift", size="quick", driver="grow", baselines="all", overrides={})

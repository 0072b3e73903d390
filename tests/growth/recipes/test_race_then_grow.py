"""The recipe that begins with a race and grows around its winner: who has what, and that it runs as its docs say."""

from __future__ import annotations

from typing import Any

import pytest

from evodevo.errors import UsageError
from evodevo.experiments.procedures import PROCEDURES
from evodevo.experiments.racing.plan import plan_first
from evodevo.experiments.racing.room import RaceRoom
from evodevo.experiments.recipe import ExperimentSettings
from evodevo.experiments.settings import procedure_options, task_settings, training_settings
from evodevo.growth.recipes.raced import GROWN, RACED
from evodevo.growth.spec import GrowthSettings
from evodevo.module_zoo.procedures.room import alone, network_of, step_flops
from evodevo.module_zoo.procedures.search_settings import RaceOptions
from evodevo.runs.resolve import resolve
from evodevo.settings import validate
from evodevo.tasks.base import TASKS


def comparison(size: str = "quick", **changes: Any) -> ExperimentSettings:
    settings = resolve("module_zoo.race_then_grow", size=size, driver="grow", overrides=changes)
    assert isinstance(settings, ExperimentSettings)
    return settings


def growth_of(settings: ExperimentSettings) -> dict[str, GrowthSettings]:
    """Options of each arm, as its procedure sees them."""
    return {
        trial.name: validate(GrowthSettings, procedure_options(settings.evaluation, trial), what=trial.name)
        for trial in settings.experiment.trainings()
        if trial.seed == 0
    }


@pytest.mark.parametrize("size", ["quick", "full"])
def test_all_begin_as_one_network_and_two_with_one_race_and_one_of_these_grows(size: str) -> None:
    settings = comparison(size)
    trials = [trial for trial in settings.experiment.trainings() if trial.seed == 0]
    assert len({trial.network.model_dump_json() for trial in trials}) == 1
    assert len({training_settings(settings.evaluation, trial).model_dump_json() for trial in trials}) == 1
    options = growth_of(settings)
    assert list(options) == [GROWN, RACED, "fixed"]
    assert options[GROWN].race == options[RACED].race
    assert options[GROWN].race.identity
    assert options[GROWN].race.share > 0
    assert [name for name, one in options.items() if one.events.count] == [GROWN]
    assert [name for name, one in options.items() if one.forks.share] == [GROWN]
    assert [name for name, one in options.items() if one.strategist == "fixed"] == ["fixed"], "which never races"


@pytest.mark.parametrize("size", ["quick", "full"])
def test_every_arm_is_allowed_on_its_task_and_all_networks_have_room_to_race(size: str) -> None:
    settings = comparison(size)
    race = growth_of(settings)[GROWN].race
    options = validate(RaceOptions, race.model_dump(exclude={"partial"}), what="race")
    structure = settings.experiment.arms[0].network.structure  # type: ignore[union-attr]
    room = RaceRoom.of(settings.evaluation.training, options)
    task = TASKS.get(settings.evaluation.task).open(task_settings(settings.evaluation, {}), None)
    for trial in settings.experiment.trainings():
        PROCEDURES.get(trial.procedure).check_task(settings.evaluation, trial, task)
    batch = settings.evaluation.training.batch_size
    costs = [step_flops(network_of(structure, (name,)), task, batch) for name in alone(structure, options)]
    planned = plan_first(costs, room.race(options, costs), options.least, room.judging)
    assert planned is not None
    assert len(planned.arms) == len(costs) == 7


def test_changes_of_the_zoo_the_race_and_the_forks_reach_the_arms() -> None:
    settings = comparison(zoo={"width": 16}, grow={"forks": {"samples": 99}, "race": {"least": 7}})
    trials = [trial for trial in settings.experiment.trainings() if trial.seed == 0]
    assert {trial.network.structure.width for trial in trials} == {16}  # type: ignore[union-attr]
    options = growth_of(settings)
    assert options[GROWN].forks.samples == 99
    assert {one.race.least for one in options.values()} == {7}


def test_it_has_no_opponents_and_no_other_strategists() -> None:
    with pytest.raises(UsageError, match="baselines"):
        resolve("module_zoo.race_then_grow", size="quick", driver="grow", baselines="all", overrides={})
    with pytest.raises(UsageError, match="strategist"):
        comparison(grow={"strategist": "ppo"})

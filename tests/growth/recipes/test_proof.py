"""The proof of growth: fair arms on each data set, and a control that lacks families and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from evodevo.errors import UsageError
from evodevo.experiments.problem import NetworkProblem
from evodevo.experiments.recipe import ExperimentSettings
from evodevo.experiments.settings import procedure_options, training_settings
from evodevo.experiments.trials import Variant
from evodevo.growth.recipes.proof import CONTROL
from evodevo.growth.recipes.proof_data import TRIALS, trial_of
from evodevo.growth.spec import GrowthSettings
from evodevo.module_zoo.baselines.network import BaselineNetwork
from evodevo.module_zoo.modules.families import PAPER
from evodevo.module_zoo.network import ModuleZooNetwork
from evodevo.module_zoo.spec import ZooStructure
from evodevo.runs.resolve import resolve
from evodevo.settings import validate

DATA = Path(__file__).parents[4] / "shared" / "data"


def made(data: str | None = None, size: str = "full", **changes: Any) -> ExperimentSettings:
    given = {} if data is None else {"evaluation": {"task_settings": {"data": data}}}
    settings = resolve("module_zoo.growth_proof", size=size, driver="grow", overrides={**given, **changes})
    assert isinstance(settings, ExperimentSettings)
    return settings


def folder(name: str) -> str:
    if not (DATA / name).is_dir():
        pytest.skip(f"needs the data set {name}")
    return str(DATA / name)


def zoo_of(plan: Variant) -> ZooStructure:
    assert isinstance(plan.network, ModuleZooNetwork)
    return plan.network.structure


@pytest.mark.parametrize("size", ["quick", "full"])
@pytest.mark.parametrize("data", [None, *TRIALS])
def test_all_arms_may_compute_as_much(data: str | None, size: str) -> None:
    settings = made(data, size)
    for arm in settings.experiment.trainings():
        budget = training_settings(settings.evaluation, arm).budget
        assert budget == settings.evaluation.training.budget
        assert budget.flops is not None
        assert (budget.steps, budget.seconds, budget.tokens) == (None, None, None), "FLOPs alone end a training"
    assert len({arm.learning_rate for arm in settings.experiment.trainings()}) == 1
    assert settings.evaluation.select is not None
    assert settings.evaluation.select.patience is None, "who stops early would compute less"


@pytest.mark.parametrize("data", [None, "easy_vqa", "fashion_mnist"])
def test_the_primary_experiment_has_all_arms_of_the_proof(data: str | None) -> None:
    settings = made(data)
    primary = [plan for plan in settings.experiment.arms if not plan.cell]
    names = ["grown by ppo", "grown by random", "grown by heuristic", "fixed", "Switch", "ST-MoE", "Soft MoE"]
    assert [plan.name for plan in primary] == names
    assert settings.experiment.reference == "fixed"
    assert settings.experiment.seeds == 5
    zoos = [zoo_of(plan) for plan in primary if plan.role == "zoo"]
    assert all(zoo == zoos[0] for zoo in zoos)
    assert tuple(module.genotype.archetype for module in zoos[0].live) == PAPER


@pytest.mark.parametrize("size", ["quick", "full"])
def test_the_fixed_arms_have_no_event(size: str) -> None:
    settings = made(size=size)
    for arm in settings.experiment.trainings():
        if arm.procedure != "grow":
            continue
        growth = validate(GrowthSettings, procedure_options(settings.evaluation, arm), what="options")
        assert (growth.events.count == 0) == (arm.name == "fixed")
        assert arm.name in (growth.strategist, f"grown by {growth.strategist}")


def test_the_control_differs_in_its_modules_alone() -> None:
    arms = made().experiment.arms
    control = {plan.name: plan for plan in arms if plan.cell == CONTROL}
    primary = {plan.name: plan for plan in arms if not plan.cell}
    assert set(control) == {"grown by ppo", "fixed"}
    for name, plan in control.items():
        assert zoo_of(plan).model_copy(update={"modules": ()}) == zoo_of(primary[name]).model_copy(
            update={"modules": ()}
        )
        assert [module.genotype.archetype for module in zoo_of(plan).live] == ["mlp", "squeeze_excite"]
        assert plan.model_copy(update={"cell": {}, "network": primary[name].network}) == primary[name]


def test_small_data_sets_tell_a_direction_with_two_arms() -> None:
    for name in ("sib200_6", "nlvr"):
        settings = made(name)
        assert [plan.name for plan in settings.experiment.arms] == ["grown by ppo", "fixed"]
        assert settings.experiment.seeds < made("easy_vqa").experiment.seeds
        assert any("direction" in one for one in settings.experiment.caveats)


def test_what_a_user_changes_holds_for_all_zoos() -> None:
    settings = made(zoo={"width": 16}, grow={"events": {"count": 3}})
    assert {zoo_of(plan).width for plan in settings.experiment.arms if plan.role == "zoo"} == {16}
    assert settings.evaluation.options["grow"] == {"events": {"count": 3}}


def test_data_that_nobody_knows_want_a_task() -> None:
    with pytest.raises(UsageError, match="--task"):
        made("posts.csv")
    settings = made("posts.csv", evaluation={"task": "table", "task_settings": {"data": "posts.csv"}})
    assert settings.evaluation.task == "table"
    assert settings.evaluation.task_settings == {"data": "posts.csv"}


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["sib200_6", pytest.param("easy_vqa", marks=pytest.mark.slow), "nlvr", "fashion_mnist"]
)
def test_the_data_are_read_into_four_splits_as_expected(name: str, tmp_path: Path) -> None:
    settings, trial = made(folder(name)), trial_of(folder(name))
    problem = NetworkProblem(
        lambda arm: arm, settings.evaluation, cache_folder=tmp_path, arms=settings.experiment.trainings()
    )
    assert "architecture" in problem.task.splits, "the reward never sees what selects the model"
    kinds = [[(one.name, one.modality) for one in each] for each in (trial.inputs, problem.task.inputs)]
    assert kinds[0] == kinds[1]
    assert trial.outputs[0].size == problem.task.outputs[0].size
    zoo = settings.experiment.arms[0].network
    wanted = zoo.cost(inputs=trial.inputs, outputs=trial.outputs).parameters
    for plan in settings.experiment.arms:
        if isinstance(plan.network, BaselineNetwork):
            found = plan.network.cost(inputs=trial.inputs, outputs=trial.outputs).parameters
            assert abs(found - wanted) <= 0.2 * wanted, plan.name

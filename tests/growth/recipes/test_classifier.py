"""The classifier's recipes: a zoo and its opponents under one budget, and what a user may change."""

from __future__ import annotations

from typing import Any

import pytest

from evodevo.errors import UsageError
from evodevo.experiments.recipe import ExperimentSettings
from evodevo.experiments.settings import PAPER_SELECTION, task_settings, training_settings
from evodevo.runs.resolve import resolve
from evodevo.training.settings import paper_training


def made(name: str = "classifier", size: str = "quick", baselines: str | None = None, **changes: Any) -> Any:
    settings = resolve(f"module_zoo.{name}", size=size, driver="train", baselines=baselines, overrides=changes)
    assert isinstance(settings, ExperimentSettings)
    return settings


def names(settings: Any) -> list[str]:
    return [plan.name for plan in settings.experiment.arms]


@pytest.mark.parametrize("size", ["quick", "full"])
def test_all_arms_have_the_same_budget(size: str) -> None:
    settings = made(size=size)
    assert names(settings)[0] == "zoo", "the first arm is the reference"
    for arm in settings.experiment.trainings():
        assert training_settings(settings.evaluation, arm).budget == settings.evaluation.training.budget
        task_settings(settings.evaluation, arm.task)
    assert settings.evaluation.select.metric == "auc"
    assert settings.evaluation.task_settings == {}, "it runs offline, on data that are always there"


@pytest.mark.slow
def test_baselines() -> None:
    assert names(made(baselines="none")) == ["zoo"]
    quick, every = (names(made(baselines=one)) for one in ("quick", "all"))
    assert len(quick) == 6
    assert set(quick) < set(every)
    assert len(every) >= 18
    assert names(made()) == quick
    assert names(made(size="full")) == every
    assert made(size="full").experiment.seeds == 3


def test_the_zoo_may_be_changed_and_its_opponents_change_with_it() -> None:
    settings = made(zoo={"width": 32, "modules": ["mlp", "lstm"], "extractor": {"blocks": 1}, "router": {"top_k": 1}})
    zoo, *others = (plan.network.structure for plan in settings.experiment.arms)
    assert [module.id for module in zoo.modules] == ["mlp-1", "lstm-1"]
    assert zoo.router.top_k == 1
    assert {one.width for one in others} == {32}
    assert {one.extractor for one in others} == {zoo.extractor}
    with pytest.raises(UsageError, match="did you mean 'top_k'"):
        made(zoo={"router": {"topk": 1}})


def test_columns_of_a_table_need_no_room() -> None:
    evaluation = made(data="posts.csv", image="path", text="caption", label="class", patience=3).evaluation
    columns = {"data": "posts.csv", "image": "path", "text": "caption", "label": "class"}
    assert (evaluation.task, evaluation.task_settings) == ("table", columns)
    assert evaluation.select.patience == 3
    assert evaluation.exchange
    with pytest.raises(UsageError, match="Did you mean 'label'"):
        made(data="posts.csv", lable="class")


def test_the_papers_settings() -> None:
    settings = made("paper", size="full")
    structure = settings.experiment.arms[0].network.structure
    assert (structure.width, len(structure.modules), structure.dropout) == (512, 9, 0.1)
    assert settings.evaluation.training == paper_training(10_000)
    assert settings.evaluation.select == PAPER_SELECTION
    assert settings.experiment.seeds == 3
    (rate,) = settings.experiment.learning_rates
    assert rate == 5e-5
    assert settings.evaluation.task_settings["size"] == [224, 224]
    assert settings.evaluation.task_settings["length"] == 128
    own = made("paper", zoo={"extractors": {"text": {"path": "here"}}}, data="posts.csv", label="class").evaluation
    assert own.task_settings["data"] == "posts.csv"
    assert own.task_settings["size"] == [224, 224]

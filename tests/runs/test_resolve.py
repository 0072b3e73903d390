"""Short names, a task or data of one's own, and how long an evaluation may take."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from evodevo.errors import UsageError
from evodevo.experiments.recipe import ExperimentSettings
from evodevo.h_model.recipes.pointer import pointer
from evodevo.runs.recipe import RECIPES, Changes, Driver, Recipe, Size
from evodevo.runs.resolve import resolve

NAME = "h_model.short"


def compose(size: Size, driver: Driver, changes: Changes) -> ExperimentSettings:
    made = _with(pointer(size), title=f"{dict(changes.part)}")
    return made if changes.baselines == "all" else _with(made, arms=made.experiment.arms[:1])


def _with(made: ExperimentSettings, **changes: Any) -> ExperimentSettings:
    return made.model_copy(update={"experiment": made.experiment.model_copy(update=changes)})


@pytest.fixture(autouse=True)
def _recipe() -> Iterator[None]:
    short = {"points": "evaluation.curve_points"}
    RECIPES.add(NAME, Recipe(NAME, "for tests", ("train",), compose, "part", short, "text_labels"))
    yield
    del RECIPES._rows[NAME]


def made(baselines: str | None = None, **overrides: Any) -> Any:
    return resolve(NAME, driver="train", overrides=overrides, baselines=baselines)


def test_a_short_name_is_the_recipes_and_what_is_written_in_full_counts_more() -> None:
    assert made(points=3).evaluation.curve_points == 3
    evaluation = made(nodes=4, samples={"train": 9}).evaluation
    assert evaluation.task_settings == {"nodes": 4, "samples": {"train": 9}}, "a setting of the task needs no room"
    both = made(points=3, nodes=4, evaluation={"curve_points": 5, "task_settings": {"nodes": 6}}).evaluation
    assert (both.curve_points, both.task_settings["nodes"]) == (5, 6)


def test_an_unknown_short_name_is_told_with_the_nearest() -> None:
    with pytest.raises(UsageError, match=r"unknown setting 'nodez'\. Did you mean 'nodes'\?.*points"):
        made(nodez=4)
    with pytest.raises(UsageError, match="Did you mean 'evaluation'"):
        made(evaluaton={"curve_points": 5})
    with pytest.raises(UsageError, match="did you mean 'study'"):
        resolve("backbone.demo", overrides={"studdy": {}})


def test_another_task_takes_the_settings_of_the_recipes_own_away_and_data_have_a_task() -> None:
    assert made().evaluation.probes
    other = made(evaluation={"task": "image_text"}, form="match").evaluation
    assert (other.task, other.task_settings, other.probes) == ("image_text", {"form": "match"}, ())
    with pytest.raises(UsageError, match=r"unknown task 'image_txt'\. Did you mean 'image_text'"):
        made(evaluation={"task": "image_txt"})
    for given in ({"data": "texts"}, {"evaluation": {"task_settings": {"data": "texts"}}}):
        evaluation = made(**given).evaluation
        new = {"length": None, "most_cut": 0.2, "everything": False}
        assert (evaluation.task, evaluation.task_settings) == ("text_labels", {"data": "texts", **new})


def test_proofs_are_generated_or_the_texts_of_a_file_and_their_answers() -> None:
    own = {"data": "theories.csv", "text": "context,question", "label": "answer", "group": "depth"}
    settings = resolve("h_model.proofs", driver="train", overrides={"evaluation": {"task_settings": own}})
    assert settings.evaluation.task == "text_labels"
    assert settings.evaluation.task_settings.items() >= own.items()
    # Neither arms of the generated task nor the table of the paper belong to other data.
    assert not settings.experiment.paper
    assert all(not arm.task for arm in settings.experiment.arms)
    assert resolve("h_model.proofs", driver="train", overrides={}).evaluation.task == "proofs"
    full = resolve("h_model.proofs", size="full", driver="train", overrides={"data": "theories.csv"})
    assert full.evaluation.task == "text_labels"
    assert all(not arm.task for arm in full.experiment.arms)
    assert made(data="x", evaluation={"task": "images"}).evaluation.task == "images"


def test_time_for_a_budget_in_seconds() -> None:
    before = made().evaluation.seconds
    assert made(evaluation={"training": {"budget": {"steps": 9}}}).evaluation.seconds == before
    assert made(evaluation={"training": {"budget": {"seconds": 7200.0}}}).evaluation.seconds > 2 * 7200
    assert made(evaluation={"training": {"budget": {"seconds": 9.0}}, "seconds": 60.0}).evaluation.seconds == 60


def test_a_recipe_says_what_its_networks_are_made_of() -> None:
    assert made(part={"width": 4}).experiment.title == "{'width': 4}"
    with pytest.raises(UsageError, match="part is a table of settings"):
        made(part=4)
    with pytest.raises(UsageError, match="unknown setting 'part'"):
        resolve("h_model.pointer", driver="train", overrides={"part": {}})


def test_baselines_are_for_recipes_that_offer_them() -> None:
    assert len(made("none").experiment.arms) == 1 < len(made("all").experiment.arms)
    with pytest.raises(UsageError, match="Did you mean 'quick'"):
        made("quik")
    with pytest.raises(UsageError, match="names its arms itself"):
        resolve("h_model.pointer", driver="train", overrides={}, baselines="all")

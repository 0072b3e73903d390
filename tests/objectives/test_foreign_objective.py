"""An objective on answers that a package adds is as good as ours: one row serves evolve, train and extend."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evodevo import add_task, create_system, run_system
from evodevo.errors import UsageError
from evodevo.execution.serial import SerialExecutor
from evodevo.experiments.comparison import compare_arms
from evodevo.experiments.recipe import Comparison, ExperimentSettings
from evodevo.experiments.trials import Variant
from evodevo.h_model.network import HModelNetwork
from evodevo.h_model.recipes.search import HModelSearchSettings
from evodevo.h_model.space_settings import HModelSpaceSettings
from evodevo.multitask.system import System
from evodevo.objectives.answered import Answered, AnswerScore
from evodevo.objectives.base import OBJECTIVES, on_answers
from evodevo.runs.evolve import begin
from evodevo.runs.recipe import ExecutionSettings
from evodevo.search.settings import StudySettings
from evodevo.storage import Store
from evodevo.testing.small_networks import STRUCTURE
from evodevo.testing.small_networks import settings as small_settings

SEEN: list[Answered] = []


def worst_class(answered: Answered) -> AnswerScore:
    """The accuracy of the class that is answered worst."""
    SEEN.append(answered)
    return AnswerScore(
        min(float(answered.right[answered.targets == one].mean()) for one in np.unique(answered.targets))
    )


# What a package would write.
WORST_CLASS = on_answers(
    name="worst_class", unit="share", direction="maximise", summary="accuracy of the worst class", score=worst_class
)


@pytest.fixture(autouse=True)
def _row(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr("evodevo.experiments.evaluate.look_inside", lambda *_: {})
    OBJECTIVES.add("worst_class", WORST_CLASS)
    SEEN.clear()
    yield
    del OBJECTIVES._rows["worst_class"]


@pytest.mark.slow
def test_trainings_are_compared_by_it(tmp_path: Path) -> None:
    settings = ExperimentSettings(
        experiment=Comparison(arms=(Variant(name="H-Model", network=HModelNetwork(structure=STRUCTURE)),), seeds=1),
        evaluation=small_settings({"training": {"budget": {"steps": 2}}}),
        execution=ExecutionSettings(executor="serial"),
    )
    more: dict[str, Any] = {"listener": None, "on_start": None, "cache_folder": tmp_path}
    run = begin("train", "h_model.own", settings, store=tmp_path / "runs", **more)
    with run.archive:
        table = compare_arms(run)
        (column,) = [name for name in table.headlines if name.endswith(" worst_class")]
        (one,) = run.individuals()
        (output,) = one.fact["test"]["outputs"].values()
        assert table.rows[0].metrics[column].mean == output["worst_class"] == worst_class(SEEN[-1]).value
    assert set(SEEN[-1].groups) == {"hops"}
    assert len(SEEN[-1].groups["hops"]) == len(SEEN[-1].targets)


@pytest.mark.slow
def test_a_search_selects_by_it(tmp_path: Path) -> None:
    settings = HModelSearchSettings(
        space=HModelSpaceSettings(
            hidden_range=(1, 2), iterations_range=(1, 2), layers=("mlp",), heads=2, structure=STRUCTURE
        ),
        evaluation=small_settings(
            {"training": {"budget": {"steps": 2}}, "objectives": ("worst_class", "executed_flops")}
        ),
        study=StudySettings(population=2, generations=1, confirmations=0, baselines=False),
        execution=ExecutionSettings(executor="serial"),
    )
    more: dict[str, Any] = {"listener": None, "on_start": None, "cache_folder": tmp_path}
    run = begin("evolve", "h_model.small", settings, store=tmp_path / "runs", **more)
    with run.archive:
        assert run.state == "finished"
        for one in run.individuals():
            (output,) = one.fact["validation"]["outputs"].values()
            assert one.scores["worst_class"] == output["worst_class"]


@pytest.mark.slow
def test_an_agent_selects_its_children_by_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    tiny = {
        "cycle": {"samples": 1, "generation_size": 1},
        "training": {"validations": 2, "most_between": 64, "device": "cpu", "objective": "worst_class"},
        "root": {"structure": {"width": 16, "heads": 2, "hidden": 16}},
    }
    create_system("zoo", kind="VitTiny", overrides=tiny, store=tmp_path / "runs")
    add_task("zoo", "digits_parity", question="parity", store=tmp_path / "runs")
    with SerialExecutor() as executor:
        run_system("zoo", store=tmp_path / "runs", executor=executor)
    assert SEEN
    expected = max(worst_class(one).value for one in SEEN[:3])  # before the first step, and twice after it
    with Store.open(tmp_path / "runs") as store:
        offers = System.open(store, "zoo").view().offers
        (known,) = [one for name, one in offers.items() if name.endswith("digits_parity")]
        assert known.quality == expected


def test_an_agent_refuses_an_objective_that_is_no_share(tmp_path: Path) -> None:
    allowed = "accuracy, likelihood, calibration_error, worst_class"
    with pytest.raises(UsageError, match=rf"training.objective is 'log_loss'.*{allowed}"):
        create_system("zoo", kind="VitTiny", overrides={"training": {"objective": "log_loss"}}, store=tmp_path)

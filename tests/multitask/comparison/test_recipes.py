"""Recipes of multitask systems: made once, gone on with, read when they are finished; arms differ as they say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from evodevo import canonical
from evodevo.errors import NotFoundError, UsageError
from evodevo.execution.serial import SerialExecutor
from evodevo.multitask.comparison.results import RecipeResult
from evodevo.multitask.comparison.runner import run_recipe
from evodevo.multitask.comparison.systems import RecipeSession
from evodevo.multitask.schedule import is_root
from evodevo.multitask.system import System
from evodevo.storage import Store

SMALL: dict[str, Any] = {
    "system": {
        "tasks": [
            {"name": "digits", "source": {"batch": 256}},
            {"name": "upper", "source": {"question": "upper_half", "batch": 256}},
        ],
        "root": {"name": "parity", "source": {"question": "parity", "batch": 256}},
        "agent": {
            "structure": {"patch": 4, "width": 8, "hidden": 8},
            "hyperparameters": {"num_layers": {"values": [1, 2], "default": 1}},
        },
    },
    "study": {"cycles": 1, "extra": 1, "cycle": {"samples": 1, "generation_size": 1}},
    "evaluation": {"training": {"validations": 1, "most_between": 256}, "root_validations": 2},
}


def characters(folder: Path, **given: Any) -> RecipeResult:
    with SerialExecutor() as executor:
        return run_recipe(
            "multitask.characters",
            store=folder / "runs",
            overrides={**SMALL, **given.pop("more", {})},
            cache_folder=folder / "cache",
            executor=executor,
            **given,
        )


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, RecipeResult, list[tuple[str, dict[str, Any]]]]:
    folder, heard = tmp_path_factory.mktemp("characters"), []
    result = characters(folder, listener=lambda kind, facts: heard.append((kind, facts)))
    return folder, result, heard


Finished = tuple[Path, RecipeResult, list[tuple[str, dict[str, Any]]]]


@pytest.mark.slow
def test_all_arms_see_equally_many_samples_and_all_tasks_are_measured(finished: Finished) -> None:
    _, result, _ = finished
    assert result.state == "finished"
    arms = {one["arm"]: one for one in result.document["arms"]}
    assert set(arms) == {"scratch", "fine_tuning", "frozen", "singlepath"}
    seen = {one["samples_seen"] for one in arms.values()}
    assert seen == {result.document["planned_samples"]} == {2 * 256}
    for one in arms.values():
        assert set(one["tasks"]) == {"digits", "upper"}
        assert one["accuracy"] == pytest.approx(sum(task["accuracy"] for task in one["tasks"].values()) / 2)
    assert result.document["root"]["samples_seen"] == 2 * 256
    canonical.loads(canonical.dumps(result.document))
    assert len(result.csv.splitlines()) == 1 + 4 * 2


@pytest.mark.slow
def test_what_every_cycle_published_is_measured_and_drawn(finished: Finished) -> None:
    folder, result, _ = finished
    found = result.document["curves"]
    arms = {f"({one['letter']}) {one['title']}": one for one in result.document["arms"]}
    assert set(found) == set(arms)
    for name, one in found.items():
        (test,), (validation,) = one["test"], one["validation"]
        assert len(test) == len(validation) == 1, "cycles"
        assert test[-1] == pytest.approx(arms[name]["accuracy"])
        assert validation[-1] == pytest.approx(arms[name]["validation_accuracy"])
    with Store.open(folder / "runs") as store:
        for one in store.systems.systems():
            published = {row.path_id for row in store.systems.publications(one.id) if row.path_id is not None}
            rows = store.systems.evaluations_of(published)
            looks = [sum(row.fidelity == "test" for row in rows[name]) for name in published]
            assert max(looks) <= 1, "test data are looked at once"
    text = result.page
    assert "Validation and test accuracy over cycles" in text
    for name in arms:
        assert name in text, name
    assert "http" not in text.replace("http-equiv", "").replace("http://www.w3.org", ""), "it is one file"


@pytest.mark.slow
def test_the_plan_is_told_before_anything_is_made(finished: Finished) -> None:
    _, _, heard = finished
    assert heard[0][0] == "plan"
    assert heard[0][1]["children"] == 1 + 4 * 2
    assert heard[0][1]["seconds"] > 0


@pytest.mark.slow
def test_arms_share_what_they_may(finished: Finished) -> None:
    folder, result, _ = finished
    label = result.label
    with Store.open(folder / "runs") as store:
        shared, sizes = {}, {}
        for arm in ("scratch", "fine_tuning", "frozen", "singlepath"):
            system = System.open(store, f"{label}.{arm}.0")
            roots = [one for one in system.agents() if is_root(one)]
            root = system.view().offers[roots[0].name]
            ours = {part.id for part in root.components}
            paths = [one for name, one in system.view().offers.items() if name != roots[0].name]
            shared[arm] = [{part.role for part in one.components if part.id in ours} for one in paths]
            sizes[arm] = [sum(part.parameters for part in one.components) for one in paths]
            assert root.parameters == result.document["root"]["parameters"]
    assert shared["scratch"] == shared["fine_tuning"] == [set(), set()]
    for roles in shared["frozen"]:
        assert roles == {"embedding", "cls", "posembed_input", "encoderblock_0"}, "all but the norm and the head"
    arms = {one["arm"]: one for one in result.document["arms"]}
    root_size = result.document["root"]["parameters"]
    assert arms["scratch"]["parameters"] == sum(sizes["scratch"])
    assert arms["fine_tuning"]["parameters"] == root_size + sum(sizes["fine_tuning"])
    assert arms["frozen"]["parameters"] < arms["fine_tuning"]["parameters"]
    assert arms["fine_tuning"]["share"] == 1


@pytest.mark.slow
def test_a_finished_recipe_is_read_and_nothing_is_trained(finished: Finished, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, result, _ = finished

    def refused(*_: Any) -> None:
        raise AssertionError("a worker was asked for")

    monkeypatch.setattr(SerialExecutor, "submit", refused)
    again = characters(folder)
    assert again == result


@pytest.mark.slow
def test_other_settings_have_other_systems(finished: Finished) -> None:
    folder, result, _ = finished
    other = characters(folder, more={"compared": {"arms": ["frozen"]}})
    assert other.label != result.label
    assert [one["arm"] for one in other.document["arms"]] == ["frozen"]
    assert other.document["target"] is None
    assert characters(folder, workers=7).label == result.label, "workers decide nothing"


@pytest.mark.slow
def test_whoever_stops_goes_on_and_finds_the_same(finished: Finished, tmp_path: Path) -> None:
    _, whole, _ = finished
    sessions: list[RecipeSession] = []
    children, stops = 0, 0

    def hear(kind: str, facts: dict[str, Any]) -> None:
        nonlocal children
        children += kind == "child"
        if kind == "child" and children % 3 == 0:
            sessions[-1].stop()

    while (result := characters(tmp_path, listener=hear, on_start=sessions.append)).state == "interrupted":
        stops += 1
        assert stops < 10
    assert stops >= 2
    for one in ("accuracy", "validation_accuracy", "parameters", "samples_seen", "tasks"):
        assert [arm[one] for arm in result.document["arms"]] == [arm[one] for arm in whole.document["arms"]], one
    assert result.document["differences"] == whole.document["differences"]


def test_data_that_are_not_there_are_named(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="mnist10k"):
        run_recipe("multitask.characters", store=tmp_path / "runs", overrides={"data": str(tmp_path)})
    assert not (tmp_path / "runs").exists(), "nothing was made"


def test_recipes_of_other_commands_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="serves evolve"):
        run_recipe("backbone.demo", store=tmp_path / "runs")

"""The page, its JSON, and what the commands print of a comparison of searches."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from evodevo.backbone.search_comparison import derived
from evodevo.cli.application import run as command
from evodevo.errors import ExitCode
from evodevo.runs.archive import Run
from evodevo.runs.composed import stage_runs
from evodevo.runs.drive import PLAN

if TYPE_CHECKING:
    from .conftest import Compared

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("kind", ["algorithms", "scales"])
def test_the_report_has_the_tables_and_its_json_beside_it(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    compared: Compared = request.getfixturevalue(kind)
    path = tmp_path / "page.html"
    words = ["report", compared.run, "--store", str(compared.store), "--output", str(path)]
    assert command(words) == ExitCode.SUCCESS
    text, data = path.read_text(), json.loads(path.with_suffix(".json").read_text())
    for arm in data["arms"]:
        assert f">{arm['name']}<" in text
        assert set(arm["measures"]) <= {measure["name"] for measure in data["measures"]}
    # Two charts of all arms and one for each but random search; or one of the networks.
    assert text.count("<svg") == (4 if kind == "algorithms" else 1)
    assert all(stage["run"] in text for stage in data["stages"].values())


def test_commands_take_the_comparison_and_its_searches(
    algorithms: Compared, comparison: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    store = ["--store", str(algorithms.store)]
    search = stage_runs(comparison)["surrogate/1"].id
    for words in (["show", "last"], ["status"], ["status", algorithms.run], ["front", search], ["show", search]):
        assert command([*words, *store]) == ExitCode.SUCCESS
    shown = capsys.readouterr().out
    assert "hypervolume after 4 evaluations" in shown
    assert "search surrogate, seed number 1" in shown
    assert command(["show", algorithms.run, "--json", *store]) == ExitCode.SUCCESS
    assert json.loads(capsys.readouterr().out)["schema"] == "evodevo.search_comparison/1"
    assert command(["front", algorithms.run, *store]) == ExitCode.USAGE
    assert "several searches" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["algorithms", "scales"])
def test_as_many_trainings_as_were_planned(kind: str, request: pytest.FixtureRequest) -> None:
    run: Run = request.getfixturevalue("comparison" if kind == "algorithms" else "scaled")
    (event,) = [event for event in run.events() if event.type == PLAN]
    planned = {stage["stage"]: stage for stage in event.payload["stages"]}
    assert tuple(planned) == derived.stages(run.settings)
    for stage, each in stage_runs(run).items():
        made = len(each.individuals())
        if stage == "training":  # the most that there can be
            assert made <= planned[stage]["trainings"]
        else:
            assert planned[stage]["trainings"] == made, stage
            assert planned[stage]["tokens"] == 128
    assert event.payload["trainings"] == sum(each["trainings"] for name, each in planned.items() if name != "test")
    assert event.payload["refusal"] == ""


def test_a_dry_run_begins_nothing(
    algorithms: Compared,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(algorithms.cache))
    sets = [f"{room}={json.dumps(values)}" for room, values in algorithms.changes.items()]
    words = ["evolve", algorithms.recipe, "--dry-run", "--json", "--store", str(tmp_path / "runs")]
    assert command([*words, *(word for each in sets for word in ("--set", each))]) == ExitCode.SUCCESS
    needs = json.loads(capsys.readouterr().out)
    assert [stage["stage"] for stage in needs["stages"]] == algorithms.stages
    assert needs["tokens"] == 24 * 128
    assert not (tmp_path / "runs").exists()

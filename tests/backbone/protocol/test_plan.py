"""What a run will need: the sums of its stages, and the refusal of what does not fit."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from evodevo.backbone.protocol import plan as planning
from evodevo.backbone.protocol.plan import Plan, _refusal, plan
from evodevo.cli.application import run as command
from evodevo.errors import ExitCode, UsageError
from evodevo.runs.archive import Run
from evodevo.runs.drive import PLAN
from evodevo.runs.evolve import evolve

if TYPE_CHECKING:
    from .conftest import Carried

pytestmark = pytest.mark.slow


def test_a_protocol_has_recorded_its_plan_and_made_as_many_trainings(protocol: Run) -> None:
    from evodevo.runs.composed import stage_runs

    (event,) = [event for event in protocol.events() if event.type == PLAN]
    planned = {stage["stage"]: stage for stage in event.payload["stages"]}
    for name, run in stage_runs(protocol).items():
        assert planned[name]["trainings"] == len(run.individuals()) + len(run.baselines()), name
        first = (run.individuals() or run.baselines())[0]
        assert planned[name]["tokens"] == first.fact.get("tokens", first.fact["steps"] * 4 * 16), name
    assert event.payload["trainings"] == sum(stage["trainings"] for name, stage in planned.items() if name != "test")
    assert event.payload["refusal"] == ""
    assert event.payload["memory_bytes"] > 0
    assert event.payload["hours"] > 0


def test_more_tokens_take_proportionally_more_flops(
    protocol: Run, carried: Carried, monkeypatch: pytest.MonkeyPatch
) -> None:
    pace = planning._Pace(1e-9, 0.0, 100.0, 10**8)
    monkeypatch.setattr(planning, "_measure", lambda *rest: [pace])
    settings = protocol.settings
    longer = settings.model_copy(
        update={"protocol": settings.protocol.model_copy(update={"final_tokens": 10 * settings.protocol.final_tokens})}
    )
    one, ten = (plan(each, carried.store, carried.cache) for each in (settings, longer))
    flops = [{stage.stage: stage.flops for stage in found.stages} for found in (one, ten)]
    assert flops[0]["search"] == flops[1]["search"]
    assert 5 < flops[1]["training"] / flops[0]["training"] < 10
    assert one.expected_seconds == pytest.approx(1e-9 * one.flops / one.workers, rel=0.01)


def test_what_does_not_fit_is_refused_before_it_starts(
    protocol: Run, carried: Carried, monkeypatch: pytest.MonkeyPatch
) -> None:
    fits = Plan((), 1, 1, 1.0, 10**9, 2 * 10**9, 10**9, 2 * 10**9, 1.0, 2, 1.0)
    assert _refusal(protocol.settings, fits, 10**8) == ""
    assert "2 trainings at a time" in _refusal(protocol.settings, replace(fits, memory_left=10**8), 10**8)
    assert "--store" in _refusal(protocol.settings, replace(fits, disk_left=10**8), 10**8)
    assert "evaluation.memory_bytes" in _refusal(protocol.settings, fits, 10**12)
    before = len(protocol.archive.runs())
    monkeypatch.setattr(planning, "disk_left", lambda folder: 10)
    with pytest.raises(UsageError, match="10 B are free"):
        evolve("backbone.cache", overrides=carried.changes, store=carried.store, cache_folder=carried.cache)
    assert len(protocol.archive.runs()) == before


def test_the_command_prints_it_and_begins_nothing(
    carried: Carried,
    tmp_path: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(carried.cache))
    data = carried.changes["evaluation"]["language"]["data"]
    words = ["evolve", "backbone.demo", "--data", data, "--dry-run", "--store", f"{tmp_path}/runs"]
    small = ["--set", "execution.executor=serial", "--set", "evaluation.language.context_length=16"]
    assert command([*words, *small, "--json"]) == ExitCode.SUCCESS
    needs = json.loads(capsys.readouterr().out)
    assert needs["schema"] == "evodevo.needs/1"
    assert [stage["stage"] for stage in needs["stages"]] == ["search"]
    assert needs["tokens"] == 32 * 200_000
    assert command([*words, "--start", "11111 9111"]) == ExitCode.USAGE
    assert "segment 2 ('9111') has 4 integers" in capsys.readouterr().err
    # As without --dry-run.
    absent = ["evolve", "backbone.cache", "--data", f"{tmp_path}/none", "--store", f"{tmp_path}/runs"]
    assert command([*absent, "--dry-run"]) == command(absent) == ExitCode.USAGE
    assert command(["train", "h_model.pointer", "--dry-run"]) == ExitCode.USAGE
    assert command(["evolve", "h_model.small", "--dry-run", "--store", f"{tmp_path}/runs"]) == ExitCode.USAGE
    assert "no dry run" in capsys.readouterr().err

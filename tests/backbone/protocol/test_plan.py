"""What a run will need: the sums of its stages, and the refusal of what does not fit."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from evodevo.backbone.network import BackboneNetwork
from evodevo.backbone.protocol import plan as planning
from evodevo.backbone.protocol import tested
from evodevo.backbone.protocol.plan import Plan, _refusal, plan
from evodevo.backbone.protocol.roofline import CountedStep, count_step
from evodevo.cli.application import run as command
from evodevo.errors import ExitCode, UsageError
from evodevo.runs.archive import Run
from evodevo.runs.drive import PLAN
from evodevo.runs.evolve import evolve
from evodevo.tasks.text.language import LanguageTask, windows_of

if TYPE_CHECKING:
    from .conftest import Carried

pytestmark = pytest.mark.slow
_COUNTED: dict[str, CountedStep] = {}


@pytest.fixture(autouse=True)
def _each_step_is_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """No device is among what a count depends on; it takes a second, and plans of several devices need the same."""

    def counted(*given: Any, **how: Any) -> CountedStep:
        key = repr((given, how))
        if key not in _COUNTED:
            _COUNTED[key] = count_step(*given, **how)
        return _COUNTED[key]

    monkeypatch.setattr(tested, "count_step", counted)


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


def test_a_step_too_large_to_measure_is_counted_and_timed_by_what_is_measured(
    protocol: Run, carried: Carried, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Steps of half a batch are measured; memory is that of the whole step, and time about twice theirs."""
    given: list[planning._Pace] = []
    measure = planning._measure

    def watched(*rest: Any) -> list[planning._Pace]:
        given.extend(measure(*rest))
        return given

    monkeypatch.setattr(planning, "_measure", watched)
    monkeypatch.setattr(planning, "MOST_FLOPS", {"cpu": 1.0})
    monkeypatch.setattr(planning, "LEAST_TOKENS", 32)
    settings = protocol.settings
    found = plan(settings, carried.store, carried.cache)
    assert found.calibrated
    assert given
    space, training = protocol.slice.space(settings), settings.evaluation.training
    context = settings.evaluation.language.context_length
    assert training.batch_size * context > 32, "a part of the batch was measured"
    largest = max(pace.memory or 0 for pace in given)
    assert all(pace.memory for pace in given)
    network = BackboneNetwork.of(space, space.named("transformer++"), tied=settings.evaluation.tied)
    ends = windows_of(LanguageTask.open(settings.evaluation.language, carried.cache).vocabulary, context)
    step = count_step(network, *ends, training, samples=training.batch_size, length=context, recompute=False)
    assert step.memory in [pace.memory for pace in given]
    assert found.memory_bytes == settings.execution.workers * (largest + max(pace.base for pace in given))
    assert found.expected_seconds > 0


def test_another_device_is_planned_for_without_a_measurement(
    protocol: Run, carried: Carried, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = protocol.settings
    slow, fast = (plan(settings, carried.store, carried.cache, device_profile=name) for name in ("l4", "h100"))
    assert not fast.calibrated
    assert any("uncalibrated" in warning for warning in fast.warnings)
    assert fast.memory_left == settings.execution.workers * 80 * 10**9, "each worker has a device of its own"
    assert fast.memory_bytes == slow.memory_bytes
    assert fast.expected_seconds < slow.expected_seconds
    # Networks this small wait for launches everywhere.
    assert fast.expected_seconds == pytest.approx(slow.expected_seconds, rel=0.01)
    with pytest.raises(UsageError, match="unknown device profile 'h1000'"):
        plan(settings, carried.store, carried.cache, device_profile="h1000")
    assert command(["evolve", "backbone.demo", "--device-profile", "h100"]) == ExitCode.USAGE
    assert "give --dry-run with it" in capsys.readouterr().err

"""``evodevo extend run --budget``: a schedule that is printed first, and a command that can be given again."""

from __future__ import annotations

import json
import shutil
from collections.abc import Collection, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from evodevo.cli.application import run
from evodevo.errors import ExitCode
from evodevo.execution.base import Event, Job
from evodevo.execution.serial import SerialExecutor
from evodevo.multitask.system import System
from evodevo.storage import Store
from evodevo.storage.systems.base import AgentRow

TINY = """
cycle = {samples = 4, generation_size = 2}
training = {validations = 2, batch = 8, device = "cpu"}
root.structure = {width = 8, heads = 2, hidden = 16}
root.hyperparameters.num_layers = {values = [0, 1], default = 1}
root.hyperparameters.ds_image_size = {values = [8], default = 8}
"""

FEWEST = 40
"""Steps of a child at least, here; see ``test_budget`` for what they are."""


@pytest.fixture(autouse=True)
def _short_children(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("budget", "spending"):
        monkeypatch.setattr(f"evodevo.multitask.budgets.{name}.FEWEST", FEWEST)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("budget")
    (folder / "tiny.toml").write_text(TINY)
    store = ["--store", str(folder / "runs")]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        begin = ["extend", "create", "zoo", "--class", "VitTiny", "--config", str(folder / "tiny.toml"), *store]
        assert run(begin) == ExitCode.SUCCESS
        for task, question in (("digits", ()), ("digits_parity", ("--question", "parity"))):
            assert run(["extend", "add", "zoo", task, *question, *store]) == ExitCode.SUCCESS
    return folder


@pytest.fixture
def store(prepared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(prepared / "cache"))
    monkeypatch.setattr("evodevo.multitask.run.run.create_executor", lambda settings, preload: SerialExecutor())
    return Path(shutil.copytree(prepared / "runs", tmp_path / "runs"))


def children(store: Path) -> list[tuple[int, int]]:
    """(cycle, number of steps) of each child."""
    with Store.open(store) as opened:
        system = System.open(opened, "zoo")
        found = []
        for agent in system.agents():
            rows = opened.systems.paths(agent.id)
            for individual, results in opened.systems.evaluations_of(rows := {row.id: row for row in rows}).items():
                found += [(rows[individual].cycle, one.extra["answer"].get("steps", 0)) for one in results]
    return [one for one in found if one[1]]


def events(capsys: pytest.CaptureFixture[str]) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for line in capsys.readouterr().out.splitlines():
        event = json.loads(line)
        found.setdefault(event["type"], []).append(event)
    return found


@pytest.mark.slow
def test_a_budget_in_steps_is_shared_and_can_be_given_again(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["extend", "run", "zoo", "--budget", "80steps", "--store", str(store)]
    assert run(command) == ExitCode.SUCCESS
    seen = capsys.readouterr()
    assert "budget 80steps, shared over all cycles" in seen.err
    assert seen.err.count("1 child of 40 steps") == 2
    assert [steps for _, steps in children(store)] == [FEWEST, FEWEST]
    assert run([*command, "--json"]) == ExitCode.SUCCESS
    told = events(capsys)
    (schedule,) = told["schedule"]
    assert [row["children"] for row in schedule["planned"]] == [1, 1]
    assert schedule["planned"][0]["seconds"] is None
    qualities = {one["agent"]: one["quality"] for one in told["published"]}
    ended = {one["agent"]: one["validation"] for one in told["finished"][0]["agents"]}
    assert qualities == ended, "what is published, not what was best"
    assert [one["samples"] for one in told["child"]] == [8 * FEWEST] * 2, "steps of 8 samples"
    assert sorted(children(store)) == [(0, FEWEST)] * 2 + [(1, FEWEST)] * 2


@pytest.mark.slow
def test_a_time_that_is_used_up_is_said_and_the_same_command_goes_on(
    store: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    passed = 0.0

    class Slow(SerialExecutor):
        def _evaluate(self, job: Job) -> list[Event]:
            nonlocal passed
            passed += 60.0
            return super()._evaluate(job)

    def optimistic(system: System, agents: Sequence[AgentRow], *_: object, until: float) -> dict[str, float]:
        assert until == passed + 100.0, "the end of the budget"
        return {agent.id: 20.0 / FEWEST for agent in agents}

    monkeypatch.setattr("evodevo.multitask.run.run.paces", optimistic)
    monkeypatch.setattr("evodevo.multitask.run.run.time", SimpleNamespace(monotonic=lambda: passed))
    monkeypatch.setattr("evodevo.multitask.run.run.create_executor", lambda settings, preload: Slow())
    command = ["extend", "run", "zoo", "--budget", "100s", "--cycles", "2", "--store", str(store)]
    assert run(command) == ExitCode.SUCCESS
    assert "used up before 2 of 2 agents ended their cycles" in capsys.readouterr().err
    assert children(store) == [(0, FEWEST)] * 2
    assert run(command) == ExitCode.SUCCESS
    assert "used up" not in capsys.readouterr().err
    assert {cycle for cycle, _ in children(store)} == {0, 1}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("zoo", "--budget", "10"), "such as 90s"),
        (("zoo", "--budget", "50steps"), "the shortest one is 80steps"),
        (("zoo", "--budget", "10m", "--free"), "shared by rounds"),
        (("multitask.characters", "--budget", "10m"), "--budget"),
    ],
)
def test_a_budget_that_cannot_be_kept_is_refused(
    store: Path, capsys: pytest.CaptureFixture[str], options: Collection[str], words: str
) -> None:
    assert run(["extend", "run", *options, "--store", str(store)]) == ExitCode.USAGE
    assert words in capsys.readouterr().err
    assert not children(store)

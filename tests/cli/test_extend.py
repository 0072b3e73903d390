"""``evodevo extend``: create, add, run and withdraw as a user meets them."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from evodevo.cli.application import run
from evodevo.cli.extend.live import WORDS
from evodevo.cli.failures import TerminatedError
from evodevo.cli.stopping import Stopping
from evodevo.errors import ExitCode
from evodevo.execution.serial import SerialExecutor
from evodevo.multitask.system import System
from evodevo.storage import Store
from evodevo.testing.multitask.paths import told

TINY = """
cycle = {samples = 2, generation_size = 2}
training = {validations = 2, most_between = 64, device = "cpu"}
root.structure = {width = 16, heads = 2, hidden = 32}
root.hyperparameters.num_layers = {values = [0, 1, 2], default = 1}
root.hyperparameters.ds_image_size = {values = [8, 16], default = 8}
"""


@pytest.fixture(scope="session")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a store ``runs``, in it a system of two tasks that have not run, and what was prepared."""
    folder = tmp_path_factory.mktemp("extend")
    (folder / "tiny.toml").write_text(TINY)
    store = ["--store", str(folder / "runs")]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        begin = ["extend", "create", "zoo", "--class", "VitTiny", "--config", str(folder / "tiny.toml"), *store]
        assert run(begin) == ExitCode.SUCCESS
        assert run(["extend", "add", "zoo", "digits", *store]) == ExitCode.SUCCESS
        assert run(["extend", "add", "zoo", "digits_parity", "--question", "parity", *store]) == ExitCode.SUCCESS
    return folder


@pytest.fixture
def store(prepared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(prepared / "cache"))
    return Path(shutil.copytree(prepared / "runs", tmp_path / "runs"))


EXECUTOR = "evodevo.multitask.run.run.create_executor"


@pytest.fixture(autouse=True)
def _in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run in this process trains in it; those of ``start`` have workers."""
    monkeypatch.setattr(EXECUTOR, lambda settings, preload: SerialExecutor())


def everything(store: Path) -> dict[str, Any]:
    with Store.open(store) as opened:
        assert opened.check(deep=True).ok
        return told(System.open(opened, "zoo"))


@pytest.mark.slow
def test_a_system_is_made_and_gets_a_task(
    tmp_path: Path, prepared: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(prepared / "cache"))
    assert run(["extend", "create", "ark", "--class", "VitTiny", "--seed", "3", "--json"]) == ExitCode.SUCCESS
    made = json.loads(capsys.readouterr().out)
    assert made["schema"] == "evodevo.extend.create/1"
    assert made["root"] == "VitTiny~root_model~random_init"
    assert run(["extend", "add", "ark", "digits", "--multi", "--only", "3,5", "--json"]) == ExitCode.SUCCESS
    added = json.loads(capsys.readouterr().out)
    assert added["schema"] == "evodevo.extend.add/1"
    assert added["agents"] == ["VitTiny~digits", "MultiVitTiny~digits"]
    assert added["classes"] == ["3", "5"]
    assert added["samples"]["train"] > added["samples"]["test"] > 0


REFUSED = [
    (["create", "zoo"], ExitCode.USAGE, "already"),
    (["create", "new", "--root", "checkpoint:nowhere"], ExitCode.NOT_FOUND, "nowhere"),
    (["create", "new", "--set", "cycle.sample=3"], ExitCode.USAGE, "samples"),
    (["add", "zoo", "digits"], ExitCode.USAGE, "already"),
    (["add", "zoo", "digits~new"], ExitCode.USAGE, "name of a task"),
    (["add", "zoo", "mnist"], ExitCode.USAGE, "--data"),
    (["add", "zoo", "mnist", "--data", "nowhere"], ExitCode.USAGE, "nowhere"),
    (["add", "ark", "digits_new"], ExitCode.NOT_FOUND, "zoo"),
    (["add", "zoo", "digits_new", "--question", "colour"], ExitCode.USAGE, "parity"),
    (["run", "ark"], ExitCode.NOT_FOUND, "zoo"),
    (["run", "zoo", "--tasks", "digit"], ExitCode.USAGE, "digits"),
    (["run", "zoo", "--cycles", "0"], ExitCode.USAGE, "1 cycle"),
    (["withdraw", "zoo", "digits"], ExitCode.USAGE, "--yes"),
    (["withdraw", "zoo", "nothing", "--yes"], ExitCode.NOT_FOUND, "digits"),
    # Options of recipes and of systems are not mixed.
    (["run", "zoo", "--size", "quick"], ExitCode.USAGE, "--size"),
    (["run", "zoo", "--output", "a.csv"], ExitCode.USAGE, "--output"),
    (["run", "zoo", "--set", "a=1"], ExitCode.USAGE, "--set"),
    (["run", "multitask.characters", "--cycles", "2"], ExitCode.USAGE, "--cycles"),
    (["run", "multitask.characters", "--agents", "multi"], ExitCode.USAGE, "--agents"),
    (["run", "multitask.characters", "--output", "a.txt"], ExitCode.USAGE, ".csv"),
    (["run", "multitask.characters", "--set", "nothing=1"], ExitCode.USAGE, "nothing"),
    (["run", "backbone.demo"], ExitCode.USAGE, "extend"),
]


@pytest.mark.slow
def test_what_cannot_be_ends_with_one_sentence_and_changes_nothing(store: Path, refuse: Any) -> None:
    before = everything(store)
    for words, code, says in REFUSED:
        refuse(["extend", *words, "--store", str(store)], code, says)
        assert everything(store) == before, words


def test_withdrawing_asks_for_a_word(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    words = ["extend", "withdraw", "zoo", "digits", "--yes", "--json", "--store", str(store)]
    assert run(words) == ExitCode.SUCCESS
    told = json.loads(capsys.readouterr().out)
    assert told["withdrawn"] == ["VitTiny~digits"]
    assert told["remains"] == {"used": 0, "used_parameters": 0, "users": {}, "unused": 0, "unused_parameters": 0}
    assert run(words) == ExitCode.USAGE


class Heard:
    """A session, and the view of it."""

    def __init__(self) -> None:
        self.stops, self.said = 0, 0

    def begin(self, session: Any) -> None:
        assert session is self

    def stop(self) -> None:
        self.stops += 1

    def notify(self, text: str) -> None:
        self.said += 1


def test_ctrl_c_once_is_a_wish_and_twice_an_order() -> None:
    heard, before = Heard(), signal.getsignal(signal.SIGINT)
    with Stopping(heard, WORDS), pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)  # nothing has begun that could be stopped
    with Stopping(heard, WORDS) as stopping:
        stopping.begin(heard)
        signal.raise_signal(signal.SIGINT)
        assert (heard.stops, heard.said) == (1, 1)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGTERM)
        assert (heard.stops, stopping.terminated) == (1, True), "it was asked to stop already"
    assert signal.getsignal(signal.SIGINT) == before


def test_sigterm_is_all_that_ctrl_c_can_say() -> None:
    heard = Heard()
    with Stopping(heard, ("soon", "now")) as stopping:
        stopping.begin(heard)
        signal.raise_signal(signal.SIGTERM)
        assert (heard.stops, heard.said, stopping.terminated) == (2, 0, True)
    with Stopping(heard, WORDS) as stopping, pytest.raises(TerminatedError):
        signal.raise_signal(signal.SIGTERM)  # nothing has begun that could be stopped
    assert stopping.terminated


# Real processes

BOTH = ["--agents", "single,multi"]


def start(store: Path, *more: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "evodevo.cli", "extend", "run", "zoo", "--store", str(store), "--json", *more]
    both, variables = subprocess.PIPE, {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(command, stdout=both, stderr=both, text=True, env=variables)


def wait_for(process: subprocess.Popen[str], kind: str, count: int = 1) -> None:
    """Read events until this one has come so often."""
    assert process.stdout is not None
    for line in process.stdout:
        count -= json.loads(line)["type"] == kind
        if count == 0:
            return
    raise AssertionError(f"the process ended before {kind!r}")


@pytest.fixture(scope="session")
def uninterrupted(prepared: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store in which all agents ran one cycle, without workers."""
    folder = Path(shutil.copytree(prepared / "runs", tmp_path_factory.mktemp("whole") / "runs"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(prepared / "cache"))
        patch.setattr(EXECUTOR, lambda settings, preload: SerialExecutor())
        assert run(["extend", "run", "zoo", "--agents", "single,multi", "--store", str(folder)]) == ExitCode.SUCCESS
    return folder


@pytest.mark.slow
def test_what_was_killed_goes_on_to_the_same_system(
    store: Path, uninterrupted: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    process = start(store, *BOTH)
    wait_for(process, "child", 3)
    process.kill()
    process.communicate(timeout=120)
    assert process.returncode == -signal.SIGKILL
    again = ["extend", "run", "zoo", *BOTH, "--json", "--store", str(store)]
    assert run(again) == ExitCode.SUCCESS
    assert everything(store) == everything(uninterrupted), "children of a worker, then of this process"
    capsys.readouterr()
    assert run(again) == ExitCode.SUCCESS
    assert [json.loads(line)["type"] for line in capsys.readouterr().out.splitlines()] == ["begin", "finished"]


@pytest.mark.slow
def test_one_agent_runs_once_others_run_beside_it_and_stopping_is_safe(
    store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rooted = ["extend", "run", "zoo", "--tasks", "digits_parity", "--store", str(store)]
    assert run(rooted) == ExitCode.SUCCESS
    process = start(store, "--tasks", "digits", "--cycles", "50")
    try:
        wait_for(process, "child", 2)
        capsys.readouterr()
        assert run(["extend", "run", "zoo", "--tasks", "digits", "--store", str(store)]) == ExitCode.RUN_OWNED
        assert str(process.pid) in capsys.readouterr().err
        assert run(["extend", "withdraw", "zoo", "digits", "--yes", "--store", str(store)]) == ExitCode.RUN_OWNED
        assert run([*rooted, "--cycles", "2"]) == ExitCode.SUCCESS
        assert process.poll() is None
    finally:
        process.send_signal(signal.SIGINT)
        _, words = process.communicate(timeout=120)
    assert process.returncode == ExitCode.INTERRUPTED
    assert "Traceback" not in words
    assert f"Go on with: evodevo extend run zoo --tasks digits --cycles 50 --store {store}" in words
    with Store.open(store) as opened:
        assert opened.check(deep=True).ok
        for one in System.open(opened, "zoo").agents():
            opened.release(opened.acquire(one.id))  # nobody holds it any more


@pytest.mark.slow
def test_each_cycles_best_is_tested_once_and_chosen_without_it(
    store: Path, uninterrupted: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.rmtree(store)
    shutil.copytree(uninterrupted, store)
    with Store.open(store, "ro") as opened:
        system = System.open(opened, "zoo")
        before = {task: system.best(task).id for task in ("digits", "digits_parity")}
    words = ["extend", "run", "zoo", "--test", "--agents", "single,multi", "--json", "--store", str(store)]
    capsys.readouterr()
    measured = []
    for _ in range(2):
        assert run(words) == ExitCode.SUCCESS
        events = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert [one["type"] for one in events] == ["begin", *["tested"] * 4, "finished"]
        measured.append(events[1:])
    assert measured[0] == measured[1]
    assert all(one["test"] is not None for one in measured[0][-1]["agents"])
    with Store.open(store, "ro") as opened:
        system = System.open(opened, "zoo")
        assert {task: system.best(task).id for task in before} == before
        rows = opened.systems.evaluations_of(list(before.values()))
    assert all(sum(one.fidelity == "test" for one in found) == 1 for found in rows.values())

"""Ctrl-C, SIGTERM to a real process with its worker, and the command that goes on."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from evodevo.cli.application import run
from evodevo.cli.live import EventView
from evodevo.errors import ExitCode

if TYPE_CHECKING:
    from ..conftest import Small

pytestmark = pytest.mark.slow

SHORT = ["--generations", "1", "--set", "study.confirmations=0"]
LONG = ["--tokens", "2K", "--workers", "1", "--set", "execution.executor=processes", *SHORT]


def start(small: Small, store: Path) -> subprocess.Popen[str]:
    begin = ["evolve", "backbone.demo", "--config", str(small.config), "--data", str(small.text), *LONG]
    command = [sys.executable, "-m", "evodevo.cli", *begin, "--store", str(store), "--json"]
    both, variables = subprocess.PIPE, {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(command, stdout=both, stderr=both, text=True, env=variables)


def wait_for(process: subprocess.Popen[str], kind: str) -> None:
    """Read events until one of this kind has come."""
    assert process.stdout is not None
    if not any(json.loads(line)["type"] == kind for line in process.stdout):
        raise AssertionError(f"the process ended before {kind!r}")


def status(store: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    capsys.readouterr()
    assert run(["status", "last", "--store", str(store), "--json"]) == ExitCode.SUCCESS
    return json.loads(capsys.readouterr().out)


def test_ctrl_c_is_safe_and_resume_goes_on(
    small: Small, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    handle, handled = EventView.handle, []

    def press(view: EventView, kind: str, facts: dict[str, Any]) -> None:
        handle(view, kind, facts)
        handled.append(kind)
        if handled.count("evaluated") == 3 and kind == "evaluated":
            signal.raise_signal(signal.SIGINT)

    store = tmp_path / "runs"
    monkeypatch.setattr(EventView, "handle", press)
    assert small.evolve(store, "--json", *SHORT) == ExitCode.INTERRUPTED
    words = capsys.readouterr().err
    assert "stopping when the running evaluations are done" in words
    assert status(store, capsys)["state"] == "interrupted"
    command = re.search(r"Go on with: evodevo (resume .*)", words)
    assert command is not None
    assert run(command[1].split()) == ExitCode.SUCCESS
    facts = status(store, capsys)
    assert (facts["state"], facts["scored"]) == ("finished", 4)


def test_a_process_holds_its_run_and_terminating_counts_as_ctrl_c_twice_and_ends_the_workers(
    small: Small, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = tmp_path / "runs"
    process = start(small, store)
    wait_for(process, "progress")
    workers = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    assert status(store, capsys)["owner"]
    assert run(["resume", "last", "--store", str(store)]) == ExitCode.RUN_OWNED
    seen = capsys.readouterr().err
    assert str(process.pid) in seen
    assert "Go on with" not in seen
    process.send_signal(signal.SIGTERM)
    _, words = process.communicate(timeout=120)
    assert process.returncode == ExitCode.TERMINATED
    assert "Traceback" not in words
    assert "Go on with: evodevo resume" in words
    assert workers
    assert not any(Path(f"/proc/{pid}").exists() for pid in workers)
    assert status(store, capsys)["state"] == "interrupted"

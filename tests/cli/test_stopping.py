"""Ctrl-C once and twice, SIGTERM, and the command that goes on: real processes."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from evodevo.cli.application import run
from evodevo.errors import ExitCode

if TYPE_CHECKING:
    from ..conftest import Small

pytestmark = pytest.mark.slow

SETTINGS = ["--set", "execution.executor=processes", "--set", "study.confirmations=0"]
LONG = ["--tokens", "2K", "--generations", "1", "--workers", "1", *SETTINGS]


def start(small: Small, store: Path, *more: str) -> subprocess.Popen[str]:
    begin = ["evolve", "backbone.demo", "--config", str(small.config), "--data", str(small.text), *LONG]
    return subprocess.Popen(
        [sys.executable, "-m", "evodevo.cli", *begin, "--store", str(store), "--json", *more],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


def wait_for(process: subprocess.Popen[str], kind: str, count: int = 1) -> None:
    """Read events until this one has come so often."""
    assert process.stdout is not None
    for line in process.stdout:
        count -= json.loads(line)["type"] == kind
        if count == 0:
            return
    raise AssertionError(f"the process ended before {kind!r}")


def status(store: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, object]:
    capsys.readouterr()
    assert run(["status", "last", "--store", str(store), "--json"]) == ExitCode.SUCCESS
    facts = json.loads(capsys.readouterr().out)
    assert isinstance(facts, dict)
    return facts


def children_of(pid: int) -> set[str]:
    return set(Path(f"/proc/{pid}/task/{pid}/children").read_text().split())


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (signal.SIGINT, ExitCode.INTERRUPTED),
        (signal.SIGTERM, ExitCode.TERMINATED),  # counts as Ctrl-C twice
    ],
    ids=["Ctrl-C", "terminate"],
)
def test_stopping_is_safe_and_resume_goes_on(
    number: signal.Signals, code: ExitCode, small: Small, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = tmp_path / "runs"
    process = start(small, store)
    wait_for(process, "started")
    workers = children_of(process.pid)
    wait_for(process, "progress")
    process.send_signal(number)
    _, words = process.communicate(timeout=120)
    assert process.returncode == code
    assert "Traceback" not in words
    assert workers
    assert not any(Path(f"/proc/{pid}").exists() for pid in workers)
    facts = status(store, capsys)
    assert facts["state"] == "interrupted"
    command = re.search(r"Go on with: evodevo (resume .*)", words)
    assert command is not None
    if number == signal.SIGTERM:
        return  # what it leaves is gone on with in the same way
    assert run(command[1].split()) == ExitCode.SUCCESS
    facts = status(store, capsys)
    assert facts["state"] == "finished"
    assert facts["scored"] == 4


def test_two_processes_cannot_hold_one_run(small: Small, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = tmp_path / "runs"
    process = start(small, store)
    try:
        wait_for(process, "started")
        assert status(store, capsys)["owner"]
        assert run(["resume", "last", "--store", str(store)]) == ExitCode.RUN_OWNED
        seen = capsys.readouterr().err
        assert str(process.pid) in seen
        assert "Go on with" not in seen
    finally:
        process.terminate()
        process.communicate(timeout=60)

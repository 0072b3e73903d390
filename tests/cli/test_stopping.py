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

LONG = ["--tokens", "1K", "--generations", "1", "--workers", "1", "--set", "study.confirmations=0"]


def start(small: Small, store: Path, executor: str) -> subprocess.Popen[str]:
    begin = ["evolve", "backbone.demo", "--config", str(small.config), "--data", str(small.text), *LONG]
    where = ["--store", str(store), "--json", "--set", f"execution.executor={executor}"]
    return subprocess.Popen(
        [sys.executable, "-m", "evodevo.cli", *begin, *where],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


def wait_for(process: subprocess.Popen[str], kind: str) -> None:
    """Read events until one of this kind has come."""
    assert process.stdout is not None
    if not any(json.loads(line)["type"] == kind for line in process.stdout):
        raise AssertionError(f"the process ended before {kind!r}")


def status(store: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, object]:
    capsys.readouterr()
    assert run(["status", "last", "--store", str(store), "--json"]) == ExitCode.SUCCESS
    facts = json.loads(capsys.readouterr().out)
    assert isinstance(facts, dict)
    return facts


def test_one_process_holds_a_run_stopping_is_safe_and_resume_goes_on(
    small: Small, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = tmp_path / "runs"
    process = start(small, store, "serial")
    try:
        wait_for(process, "started")
        assert status(store, capsys)["owner"]
        assert run(["resume", "last", "--store", str(store)]) == ExitCode.RUN_OWNED
        seen = capsys.readouterr().err
        assert str(process.pid) in seen
        assert "Go on with" not in seen
    finally:
        process.send_signal(signal.SIGINT)
        _, words = process.communicate(timeout=120)
    assert process.returncode == ExitCode.INTERRUPTED
    assert "Traceback" not in words
    assert status(store, capsys)["state"] == "interrupted"
    command = re.search(r"Go on with: evodevo (resume .*)", words)
    assert command is not None
    assert run(command[1].split()) == ExitCode.SUCCESS
    facts = status(store, capsys)
    assert (facts["state"], facts["scored"]) == ("finished", 4)


def test_terminating_counts_as_ctrl_c_twice_and_ends_the_workers(
    small: Small, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    process = start(small, tmp_path / "runs", "processes")
    wait_for(process, "progress")
    workers = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    process.send_signal(signal.SIGTERM)
    _, words = process.communicate(timeout=120)
    assert process.returncode == ExitCode.TERMINATED
    assert "Traceback" not in words
    assert "Go on with: evodevo resume" in words
    assert workers
    assert not any(Path(f"/proc/{pid}").exists() for pid in workers)
    assert status(tmp_path / "runs", capsys)["state"] == "interrupted"

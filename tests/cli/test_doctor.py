"""``evodevo doctor``: it sees what is, and says what is wrong."""

from __future__ import annotations

import builtins
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evodevo.cli.application import run
from evodevo.errors import ExitCode


def doctor(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, Any]]:
    code = run(["doctor", "--json", *arguments])
    return code, json.loads(capsys.readouterr().out)


def test_a_machine_that_is_ready(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import torch

    code, seen = doctor(capsys, "--store", str(tmp_path / "deep" / "runs"))
    assert code == ExitCode.SUCCESS
    assert seen["schema"] == "evodevo.doctor/1"
    assert seen["ready"] is True
    assert seen["torch"] == torch.__version__
    assert seen["device"] == ("cuda" if torch.cuda.is_available() else "cpu")
    assert seen["store_writable"] is True
    assert seen["disk_free_bytes"] > 0
    assert seen["problems"] == []
    assert list(tmp_path.iterdir()) == [], "it leaves nothing behind"
    assert run(["doctor", "--store", str(tmp_path)]) == ExitCode.SUCCESS
    assert capsys.readouterr().out.endswith("ready. next: evodevo demo\n")


def without_torch(patch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def refuse(name: str, *arguments: Any, **more: Any) -> Any:
        if name == "torch":
            raise ImportError("No module named 'torch'")
        return real(name, *arguments, **more)

    patch.setattr(builtins, "__import__", refuse)


@pytest.mark.parametrize(
    ("break_it", "options", "words"),
    [
        (lambda patch: None, ["--store", "FILE/runs"], "--store"),
        (lambda patch: patch.setenv("XDG_CACHE_HOME", os.path.abspath("FILE")), [], "XDG_CACHE_HOME"),
        (without_torch, [], "pip install"),
        (lambda patch: patch.setattr("torch.__version__", "2.5.1+cu124"), [], "2.5.1+cu124 is too old"),
        (lambda patch: None, ["--device", "cuda:4096"], "cuda:4096"),
    ],
    ids=["store", "cache", "no torch", "old torch", "device"],
)
def test_what_is_wrong_is_a_problem(
    break_it: Callable[[pytest.MonkeyPatch], None],
    options: list[str],
    words: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("FILE").write_text("")  # also for root, no folder can be made under a file
    break_it(monkeypatch)
    code, seen = doctor(capsys, *options)
    assert code == ExitCode.INTERNAL
    assert seen["ready"] is False
    assert any(words in problem for problem in seen["problems"])


def test_a_network_file_system_is_only_advice(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evodevo.storage.filesystems.is_network", lambda path: True)
    code, seen = doctor(capsys, "--store", str(tmp_path))
    assert code == ExitCode.SUCCESS
    assert any("network" in text for text in seen["advice"])
    assert seen["processors"] == len(os.sched_getaffinity(0))

"""``evodevo doctor``: it sees what is, and says what is wrong."""

from __future__ import annotations

import builtins
import json
import os
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


def test_it_leaves_nothing_behind(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    doctor(capsys, "--store", str(tmp_path / "runs"))
    assert list(tmp_path.iterdir()) == []


def test_people_are_told_what_comes_next(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["doctor", "--store", str(tmp_path)]) == ExitCode.SUCCESS
    assert capsys.readouterr().out.endswith("ready. next: evodevo demo\n")


def test_a_store_that_cannot_be_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")  # also for root, no folder can be made under a file
    code, seen = doctor(capsys, "--store", str(tmp_path / "file" / "runs"))
    assert code == ExitCode.INTERNAL
    assert seen["ready"] is False
    assert any("--store" in problem for problem in seen["problems"])


def test_a_cache_that_cannot_be_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    code, seen = doctor(capsys, "--store", str(tmp_path))
    assert code == ExitCode.INTERNAL
    assert any("XDG_CACHE_HOME" in problem for problem in seen["problems"])


def test_no_torch(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def refuse(name: str, *arguments: Any, **more: Any) -> Any:
        if name == "torch":
            raise ImportError("No module named 'torch'")
        return real(name, *arguments, **more)

    monkeypatch.setattr(builtins, "__import__", refuse)
    code, seen = doctor(capsys, "--store", str(tmp_path))
    assert code == ExitCode.INTERNAL
    assert any("pip install" in problem for problem in seen["problems"])


def test_an_old_torch(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.__version__", "2.5.1+cu124")
    code, seen = doctor(capsys, "--store", str(tmp_path))
    assert code == ExitCode.INTERNAL
    assert any("2.5.1" in problem and "too old" in problem for problem in seen["problems"])


def test_a_device_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, seen = doctor(capsys, "--store", str(tmp_path), "--device", "cuda:4096")
    assert code == ExitCode.INTERNAL
    assert any("cuda:4096" in problem for problem in seen["problems"])


def test_a_network_file_system_is_only_advice(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evodevo.storage.filesystems.is_network", lambda path: True)
    code, seen = doctor(capsys, "--store", str(tmp_path))
    assert code == ExitCode.SUCCESS
    assert any("network" in text for text in seen["advice"])
    assert seen["processors"] == len(os.sched_getaffinity(0))

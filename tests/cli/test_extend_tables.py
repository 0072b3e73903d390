"""``evodevo extend`` and ``predict`` with a table, as a user meets them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from evodevo.cli.application import run
from evodevo.errors import ExitCode
from evodevo.execution.serial import SerialExecutor
from fixtures.clients import client_text

QUICK = ["--set", "cycle.samples=1", "--set", "cycle.generation_size=1", "--set", "training.device=cpu"]


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A system of images without tasks."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("evodevo.multitask.run.run.create_executor", lambda settings, preload: SerialExecutor())
    (tmp_path / "clients.csv").write_text(client_text(200).replace("label", "churned", 1))
    assert run(["extend", "create", "zoo", *QUICK]) == ExitCode.SUCCESS
    return ["zoo", "clients", "--data", "clients.csv"]


def test_what_was_understood_is_said(store: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert run(["extend", "add", *store]) == ExitCode.USAGE
    refused = capsys.readouterr().err
    assert "no column 'label'" in refused
    assert "--label COLUMN" in refused
    assert run(["extend", "add", *store, "--label", "churned"]) == ExitCode.SUCCESS
    said = capsys.readouterr()
    assert "data: a table with 1 category, 1 date and 2 numbers; 2 classes; 200 samples" in said.out
    assert "agent MlpSmall~clients" in said.out
    assert "The column 'remark' is not read: it holds text." in said.err
    assert "MlpSmall~root_model~random_init was added, which begins at random" in said.err
    again = ["extend", "add", "zoo", "jobs", "--data", "clients.csv", "--label", "job", "--json"]
    assert run(again) == ExitCode.SUCCESS
    told = json.loads(capsys.readouterr().out)
    assert told["root"] is None
    assert told["left_out"] == {"remark": "it holds text", "nothing": "it is empty"}
    assert told["classes"] == ["baker", "clerk", "smith"]


@pytest.mark.slow
def test_rows_are_predicted_after_a_budget(store: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["extend", "add", *store, "--label", "churned"]) == ExitCode.SUCCESS
    assert run(["extend", "run", "zoo", "--budget", "500steps", "--test"]) == ExitCode.SUCCESS
    capsys.readouterr()
    ask = ["predict", "zoo", "--task", "clients", "--json"]
    assert run([*ask, "--input", "income=5000", "--input", "job=smith"]) == ExitCode.SUCCESS
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    assert row["chosen"] == "yes"
    assert run([*ask, "--data", "clients.csv"]) == ExitCode.SUCCESS
    assert json.loads(capsys.readouterr().out)["count"] == 200
    assert run([*ask, "--input", "incme=5000"]) == ExitCode.USAGE
    assert "income" in capsys.readouterr().err

"""``evodevo extend graph``: a drawing, a text, or JSON, of any moment; what is wrong is said in a sentence."""

from __future__ import annotations

import json
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest

from evodevo.cli.application import run
from evodevo.errors import ExitCode


def graph(folder: Path, *arguments: str) -> int:
    return run(["extend", "graph", "--store", str(folder), *arguments])


def test_without_a_file_it_is_told_in_text(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert graph(folder, "zoo") == ExitCode.SUCCESS
    said = capsys.readouterr().out
    assert "2 tasks answered, 1 multipath models" in said
    assert "main VitTiny~a/" in said
    assert graph(folder, "zoo", "--task", "b", "--cycle", "1") == ExitCode.SUCCESS
    assert "multipath:" not in capsys.readouterr().out


def test_it_is_drawn_into_a_file(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole, model = tmp_path / "deep" / "zoo.svg", tmp_path / "model.svg"
    assert graph(folder, "zoo", "-o", str(whole)) == ExitCode.SUCCESS
    assert capsys.readouterr().out.strip() == str(whole)
    assert graph(folder, "zoo", "--task", "a", "--model", "-o", str(model)) == ExitCode.SUCCESS
    for path in (whole, model):
        assert ElementTree.parse(path).getroot().tag.endswith("svg")
    assert "MultiVitTiny~a" in model.read_text(encoding="utf-8")
    assert graph(folder, "bare", "-o", str(model)) == ExitCode.SUCCESS
    assert "no path yet" in model.read_text(encoding="utf-8")


@pytest.mark.slow
def test_it_loads_neither_torch_nor_numpy_nor_what_runs_agents(folder: Path, tmp_path: Path) -> None:
    script = f"""
import sys
from evodevo.cli.application import run
for arguments in ([], ["-o", {str(tmp_path / "zoo.svg")!r}], ["--task", "a", "--model"]):
    assert run(["extend", "graph", "zoo", *arguments, "--store", {str(folder)!r}]) == 0
print([name for name in ("torch", "numpy", "evodevo.multitask.runner") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_json_holds_the_facts_of_a_moment(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert graph(folder, "zoo", "--json", "--at", "1") == ExitCode.SUCCESS
    first = json.loads(capsys.readouterr().out)
    assert first["schema"] == "evodevo.extend.graph/1"
    assert [one["root"] for one in first["paths"]] == [True]
    assert graph(folder, "zoo", "--json", "--task", "a") == ExitCode.SUCCESS
    now = json.loads(capsys.readouterr().out)
    assert [one["task"] for one in now["paths"]] == ["a"]
    assert len(now["multipath"]) == 1
    assert {part for one in now["paths"] for part in one["parts"]} <= {one["id"] for one in now["components"]}


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["nobody"], ExitCode.NOT_FOUND, "no system 'nobody'"),
        (["zoo", "--task", "z"], ExitCode.NOT_FOUND, "unknown task 'z'"),
        (["zoo", "--task", "a", "--at", "1"], ExitCode.NOT_FOUND, "nobody offers a path for task 'a'"),
        (["zoo", "--task", "b", "--model"], ExitCode.NOT_FOUND, "no multipath model for task 'b'"),
        (["zoo", "--model"], ExitCode.USAGE, "--task TASK"),
        (["zoo", "--at", "1", "--cycle", "1"], ExitCode.USAGE, "give one of them"),
        (["zoo", "--at", "77"], ExitCode.USAGE, "the last publication"),
        (["zoo", "--cycle", "5"], ExitCode.USAGE, "have ended at most 2 cycles"),
        (["zoo", "-o", "x.png"], ExitCode.USAGE, "does not end with .svg"),
        (["bare", "--at", "1"], ExitCode.USAGE, "has published nothing yet"),
    ],
)
def test_what_is_wrong_is_said(folder: Path, arguments: list[str], code: ExitCode, said: str, refuse: Any) -> None:
    refuse(["extend", "graph", *arguments, "--store", str(folder)], code, said)

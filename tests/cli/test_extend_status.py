"""``evodevo extend status``: what it prints, what it hands to programs, and that it stays light."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evodevo.cli.application import run
from evodevo.cli.extend import tables
from evodevo.errors import ExitCode

Ask = Callable[..., dict[str, Any]]


@pytest.fixture
def ask(folder: Path, capsys: pytest.CaptureFixture[str]) -> Ask:
    def answer(*arguments: str) -> dict[str, Any]:
        capsys.readouterr()
        assert run(["extend", "status", *arguments, "--store", str(folder), "--json"]) == 0
        document: dict[str, Any] = json.loads(capsys.readouterr().out)
        assert next(iter(document.items())) == ("schema", "evodevo.extend.status/1")
        return document

    return answer


@pytest.fixture
def say(folder: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    def answer(*arguments: str) -> str:
        assert run(["extend", "status", *arguments, "--store", str(folder)]) == 0
        return capsys.readouterr().out

    return answer


@pytest.mark.slow
def test_without_a_name_it_lists_the_systems(ask: Ask, say: Callable[..., str]) -> None:
    zoo, bare = ask()["systems"]
    assert (zoo["system"], zoo["tasks"], zoo["agents"], zoo["cycles"], zoo["running"]) == ("zoo", 2, 4, 7, [])
    assert (bare["system"], bare["tasks"], bare["agents"], bare["cycles"]) == ("bare", 0, 1, 0)
    assert [line.split()[0] for line in say().splitlines()] == ["system", "zoo", "bare"]


def test_a_system_is_told_alike_to_people_and_to_programs(ask: Ask, say: Callable[..., str]) -> None:
    document, text = ask("zoo"), say("zoo")
    assert [one["task"] for one in document["tasks"]] == ["a", "b"]
    for one in document["tasks"]:
        (row,) = (line for line in text.splitlines() if line.split()[:2] == [one["task"], one["best"]])
        assert f"{one['quality']:.4g}" in row.split()
    for agent in document["agents"]:
        (row,) = (line for line in text.splitlines() if line.split()[:2] == [agent["agent"], str(agent["cycles"])])
        assert agent["offer"]["path"].rpartition("/")[2] in row.split()
    every = document["children"]
    assert every["asked"] == every["kept"] + every["discarded"] + every["failed"] == 4 * 2 * 3 + 1
    assert f"children: {every['asked']} ({every['kept']} kept" in text


def test_a_task_is_told_in_depth(ask: Ask, say: Callable[..., str]) -> None:
    document, text = ask("zoo", "--task", "a"), say("zoo", "--task", "a")
    assert [one["agent"] for one in document["agents"]] == ["VitTiny~a", "MultiVitTiny~a"] == list(document["course"])
    assert {one["user"] for one in document["sharing"]} >= {"VitTiny~a", "MultiVitTiny~a"}
    for name, cycles in document["course"].items():
        assert [one["number"] for one in cycles] == [0, 1]
        assert all(one["path"].startswith(f"{name}/") and one["path"] in text for one in cycles)
    assert "VitTiny~b:" not in text


def test_every_child_is_explained(ask: Ask, say: Callable[..., str]) -> None:
    told = ask("zoo", "--children")["children_told"]
    assert len(told) == 25
    for one in told:
        assert one["why"].startswith(one["fate"])
        if one["fate"] == "discarded":
            assert one["score"] <= one["bar"]
        if one["fate"] == "kept" and one["bar"] is not None:
            assert one["score"] > one["bar"]
        assert bool(one["inside"]) == one["path"].startswith("Multi")
    assert any(one["applied"] for one in told)
    assert any(one["fate"] == "failed" for one in told)
    assert not any("begins" in one for one in told), "transformers have no first children"
    text = say("zoo", "--task", "b", "--children")
    mine = [one for one in told if one["path"].startswith("VitTiny~b/")]
    assert len(mine) == 8
    for one in mine:
        (row,) = (line for line in text.splitlines() if line.split()[:2] == [one["path"], str(one["cycle"] + 1)])
        assert row.endswith(one["why"])


def test_what_a_first_child_begins_with_is_among_its_actions(ask: Ask, capsys: pytest.CaptureFixture[str]) -> None:
    one, other, *_ = ask("zoo", "--children")["children_told"]
    capsys.readouterr()
    tables.children([{**one, "begins": "from_scratch", "applied": ["clone:head"]}, {**other, "applied": []}])
    lines = capsys.readouterr().out.splitlines()
    (first,) = (line for line in lines if "from scratch, clone:head" in line)
    assert first.startswith(one["path"])


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["nothing"], ExitCode.NOT_FOUND, "no system 'nothing'"),
        (["zoo", "--task", "aa"], ExitCode.NOT_FOUND, "Did you mean 'a'"),
        (["bare", "--task", "a"], ExitCode.NOT_FOUND, "has no tasks yet"),
        (["--children"], ExitCode.USAGE, "Name it"),
    ],
)
def test_what_is_not_there_is_said(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, words: str, refuse: Any
) -> None:
    refuse(["extend", "status", *arguments, "--store", str(folder)], code, words)
    assert run(["extend", "status", "bare", "--store", str(folder)]) == 0
    assert "evodevo extend add bare" in capsys.readouterr().err


@pytest.mark.slow
def test_it_loads_neither_torch_nor_numpy_and_writes_nothing(folder: Path) -> None:
    script = f"""
import sys
from evodevo.cli.application import run
for arguments in ([], ["zoo"], ["zoo", "--task", "a"]):
    assert run(["extend", "status", *arguments, "--store", {str(folder)!r}]) == 0
print([name for name in ("torch", "numpy") if name in sys.modules], file=sys.stderr)
assert run(["extend", "status", "zoo", "--children", "--store", {str(folder)!r}]) == 0
print("torch" in sys.modules, file=sys.stderr)
"""
    before = (folder / "store.db").read_bytes()
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "[]\nFalse\n")
    assert (folder / "store.db").read_bytes() == before

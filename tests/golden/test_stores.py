"""Stores that commit 1a4e4f9 made, one of each kind: they open, show what they showed, and go on to the same end."""

from __future__ import annotations

import importlib.util
import json
import math
import sqlite3
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from evodevo.cli.application import run
from evodevo.errors import ExitCode
from evodevo.execution.serial import SerialExecutor
from evodevo.storage import Store

HERE = Path(__file__).resolve().parent
KINDS = ("search", "experiment", "grown", "system")


def _maker() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_stores", HERE / "make_stores.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["make_stores"] = module  # where dataclasses look for annotations
    spec.loader.exec_module(module)
    return module


MAKER = _maker()


@dataclass(frozen=True)
class Unpacked:
    """A store in a folder of the test.

    Attributes:
        folder: what the stored settings name as the place of the user's data; the store is ``runs`` in it.
        told: ``answers`` by command, the command that ``goes_on``, its ``course`` and the ``outcome``.
    """

    folder: Path
    told: dict[str, Any]

    def ask(self, line: str, capsys: pytest.CaptureFixture[str]) -> list[Any]:
        """The documents of a command, with the fixture's name for the folder."""
        capsys.readouterr()
        assert run([*line.split(), "--store", "runs", "--json"]) == ExitCode.SUCCESS
        text = capsys.readouterr().out.replace(str(self.folder), MAKER.PLACE)
        return [json.loads(one) for one in text.splitlines()]


def unpack(kind: str, folder: Path) -> Unpacked:
    with tarfile.open(HERE / f"{kind}.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    place = folder / kind
    with sqlite3.connect(place / "runs" / "store.db") as database:
        database.execute("UPDATE run SET settings = replace(settings, ?, ?)", (MAKER.PLACE, str(place)))
    database.close()
    return Unpacked(place, json.loads((place / "told.json").read_text(encoding="utf-8")))


@pytest.fixture
def store(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Unpacked:
    """The store of the kind that the test is called with."""
    found = unpack(request.param, tmp_path.resolve())
    monkeypatch.chdir(found.folder)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("evodevo.multitask.run.run.create_executor", lambda settings, preload: SerialExecutor())
    return found


ADDED = {
    "data": "show: the data of a run",
    "seeds": "show, front, pick: mean and range of each score; pick: the number of seeds of a comparison",
    "spread": "pick: what is known of a spread over seeds",
    "validation_batch": "settings: windows that are measured at once",
    "downstream": "show: evaluations on tasks",
    "split": "settings: the rule of a split",
    "begins_with": "show: the modules with which a growth began",
}
"""Keys of answers that came after that commit."""

RENAMED = {"dominates": "ahead"}
"""pick, schema 2: a lead on validation is no longer called dominance."""
SCHEMAS = {"evodevo.pick/1": "evodevo.pick/2"}


def alike(left: Any, right: Any) -> bool:
    """Equal, but for keys that were added, and for the last digits of floats, which a processor may compute otherwise
    while it reads.
    """
    if isinstance(left, float) and isinstance(right, float):
        return math.isclose(left, right, rel_tol=1e-9)
    if isinstance(left, dict) and isinstance(right, dict):
        left = {RENAMED.get(key, key) if key not in right else key: one for key, one in left.items()}
        if "schema" in left:
            left["schema"] = SCHEMAS.get(left["schema"], left["schema"])
        known = left.keys() == right.keys() - (ADDED.keys() - left.keys())
        return known and all(alike(one, right[key]) for key, one in left.items())
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(alike, left, right))
    return type(left) is type(right) and left == right


@pytest.mark.parametrize("store", KINDS, indirect=True)
def test_a_store_opens_and_answers_as_the_commit_that_made_it(
    store: Unpacked, capsys: pytest.CaptureFixture[str]
) -> None:
    with Store.open(Path("runs"), "ro") as opened:
        report = opened.check(deep=True)
        assert report.ok
        assert not report.sealed, "it is of a schema without seals"
    for line, answer in store.told["answers"].items():
        found = store.ask(line, capsys)
        if line == "pick last":  # a cache has no spread over seeds; that commit took it for unknown
            for comparison in answer[0]["comparisons"]:
                comparison["goals"]["cache"]["clear"] = True
        assert alike(answer, found), f"evodevo {line} --json\n{json.dumps(answer)}\n{json.dumps(found)}"


@pytest.mark.slow
@pytest.mark.parametrize("store", KINDS, indirect=True)
def test_a_store_goes_on_to_the_end_of_the_commit_that_made_it(
    store: Unpacked, capsys: pytest.CaptureFixture[str]
) -> None:
    reference = store.told["outcome"]
    assert MAKER.outcome(Path("runs")) != reference, "there is something left to do"
    course = MAKER.course(store.ask(store.told["goes_on"], capsys))
    data = [event for event in course if event[0] == "task"]  # an event that was added
    assert len(data) == (store.told["course"][0][0] == "begin" and "run" in {event[0] for event in course})
    assert [event for event in course if event[0] != "task"] == store.told["course"]
    assert MAKER.outcome(Path("runs")) == reference
    with Store.open(Path("runs"), "ro") as opened:
        assert opened.check(deep=True).ok


@pytest.mark.parametrize("store", ["search"], indirect=True)
def test_a_backbone_writes(store: Unpacked, capsys: pytest.CaptureFixture[str]) -> None:
    """Its kept weights are read."""
    (best, *_) = store.told["answers"]["front last"][0]["front"]
    (answer,) = store.ask(f"generate {best['id']} --prompt def --tokens 4", capsys)
    assert answer["text"]


@pytest.mark.parametrize("store", ["experiment"], indirect=True)
def test_an_h_model_is_traced(store: Unpacked, capsys: pytest.CaptureFixture[str]) -> None:
    """Its kept weights are read."""
    finished = sqlite3.connect("runs/store.db").execute("SELECT individual_id FROM evaluation WHERE state = 'done'")
    (answer,) = store.ask(f"trace {finished.fetchone()[0]}", capsys)
    assert answer["schema"].startswith("evodevo.trace/")


@pytest.mark.parametrize("store", ["experiment"], indirect=True)
def test_an_h_model_with_a_normaliser_that_is_gone_is_refused_in_words(
    store: Unpacked, capsys: pytest.CaptureFixture[str]
) -> None:
    with sqlite3.connect("runs/store.db") as database:
        there, gone = '"normaliser":"sum"', '"normaliser":"sinkhorn"'
        changed = database.execute(
            "UPDATE run SET settings = replace(settings, ?, ?) WHERE instr(settings, ?)", (there, gone, there)
        )
        assert changed.rowcount, "else nothing is tested"
    finished = database.execute("SELECT individual_id FROM evaluation WHERE state = 'done'").fetchone()[0]
    database.close()
    for line in ("show last", "resume last", f"show {finished}", f"trace {finished}"):
        assert run([*line.split(), "--store", "runs"]) == ExitCode.USAGE, line
        told = capsys.readouterr().err
        assert 'normaliser = "sinkhorn" is gone' in told, line
        assert "Traceback" not in told


@pytest.mark.parametrize("store", ["grown"], indirect=True)
def test_a_grown_zoo_is_replayed_from_its_log(store: Unpacked, capsys: pytest.CaptureFixture[str]) -> None:
    """Genotypes, newborns' first weights and the kept network follow from the log bit for bit."""
    finished = sqlite3.connect("runs/store.db").execute(
        "SELECT evaluation.individual_id FROM evaluation JOIN blob_reference ON owner_id = evaluation.id"
        " WHERE state = 'done' AND role = 'edits'"
    )
    found = [row[0] for row in finished]
    assert found
    edits = [store.ask(f"replay {one}", capsys)[0]["edits"] for one in found]
    assert any(edits), "one of them changed"

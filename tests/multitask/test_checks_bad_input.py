"""From a user's words: one clear error, its exit code, and nothing lost."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlalchemy import text

from evodevo.cli.application import run
from evodevo.errors import DataError, ExitCode
from evodevo.multitask.system import System
from evodevo.storage import Store
from evodevo.storage.schema import VERSION_TABLE
from evodevo.testing.multitask.paths import PathTrainer, executor_of, new_system, tasks_of, told


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with a system of two tasks that have run."""
    folder = tmp_path_factory.mktemp("made") / "runs"
    with Store.open(folder) as store:
        system = new_system(store, samples=2)
        system.run(tasks_of(system), 1, executor_of(PathTrainer(store)))
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return Path(shutil.copytree(made, tmp_path / "runs"))


def facts_of(folder: Path) -> dict[str, Any]:
    with Store.open(folder) as store:
        return told(System.open(store, "zoo"))


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    """The exit code and the one sentence."""
    capsys.readouterr()
    code = run(list(words))
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("evodevo: ")
    assert "Traceback" not in said.err
    return code, said.err


def test_data_that_cannot_be_used_leave_the_system_as_it_is(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Other data: ``run/test_run.py``."""
    before = facts_of(folder)
    np.savez(tmp_path / "set.npz", x=np.zeros((20, 4, 4), np.uint8), y=np.arange(20) % 3)
    (tmp_path / "classes.json").write_text('["a", "b"]')
    where = str(tmp_path / "set.npz")
    code, said = refused(capsys, "extend", "add", "zoo", "new", "--data", where, "--store", str(folder))
    assert code == DataError.exit_code
    assert "label 2 has no name" in said
    assert facts_of(folder) == before


def test_a_checkpoint_that_is_no_vit_makes_no_system(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "bert"
    other.mkdir()
    (other / "config.json").write_text(json.dumps({"model_type": "bert", "hidden_size": 8}))
    words = ("extend", "create", "other", "--class", "VitTiny", "--root", f"checkpoint:{other}", "--store", str(folder))
    code, said = refused(capsys, *words)
    assert code == ExitCode.USAGE
    assert "bert" in said
    with Store.open(folder) as store:
        assert [one.name for one in store.systems.systems()] == ["zoo"]


def test_a_system_of_a_newer_version_is_not_touched(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Store.open(folder) as store, store._database.writing() as connection:
        connection.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = '9999'"))
        connection.execute(text("UPDATE property SET value = '9.9.9' WHERE key = 'evodevo'"))
    before = (folder / "store.db").read_bytes()
    for words in (("run", "zoo"), ("status", "zoo"), ("add", "zoo", "new"), ("withdraw", "zoo", "a", "--yes")):
        code, said = refused(capsys, "extend", *words, "--store", str(folder))
        assert code == ExitCode.USAGE
        assert "evodevo>=9.9.9" in said
    assert (folder / "store.db").read_bytes() == before


def test_a_damaged_component_is_reported_and_nothing_else_is_lost(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Store.open(folder) as store:
        part = System.open(store, "zoo").best("a").components[-1]
        file = store.blobs.path(part.digest)
    file.chmod(0o600)
    file.write_bytes(file.read_bytes()[:-1] + b"?")
    before = facts_of(folder)
    capsys.readouterr()
    for words in (["--check"], []):
        assert run(["repair", *words, "--store", str(folder)]) == ExitCode.STORE_DAMAGED
        said = "".join(capsys.readouterr())
        assert part.digest[:12] in said
    assert part.id in said, "what was lost with it is named by its owner"
    assert facts_of(folder) == before

"""From a user's words: one clear error, its exit code, and nothing lost."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from sqlalchemy import text

from evodevo.cli.application import run
from evodevo.errors import DataError, ExitCode
from evodevo.multitask.system import System
from evodevo.storage import Store
from evodevo.storage.schema import VERSION_TABLE
from evodevo.testing.multitask.paths import PathTrainer, executor_of, new_system, tasks_of, told

Spoil = Callable[[Path], None]


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


def pictures(root: Path, split: str = "", classes: str = "ab", count: int = 12) -> None:
    rng = np.random.default_rng(len(split))
    for label in classes:
        (root / split / label).mkdir(parents=True)
        for number in range(count):
            pixels = rng.integers(0, 256, (6, 6)).astype(np.uint8)
            Image.fromarray(pixels).save(root / split / label / f"{number}.png")


def unreadable(root: Path) -> None:
    pictures(root)
    (root / "a" / "3.png").write_bytes(b"no image")


def stray(root: Path) -> None:
    pictures(root)
    (root / "a" / "3.png").rename(root / "3.png")


def unnamed(root: Path) -> None:
    root.mkdir()
    pixels = np.random.default_rng(0).integers(0, 256, (20, 4, 4)).astype(np.uint8)
    np.savez(root / "set.npz", x=pixels, y=np.arange(20) % 3)
    (root / "classes.json").write_text('["a", "b"]')


def only_in_test(root: Path) -> None:
    pictures(root, "train")
    pictures(root, "test", "ac")


@pytest.mark.parametrize(
    ("spoil", "file", "message"),
    [
        (unreadable, "", r"a/3\.png"),
        (stray, "", r"3\.png"),
        (unnamed, "set.npz", "label 2 has no name"),
        (only_in_test, "", r"'c'.*in the test split"),
    ],
    ids=["unreadable", "mislabelled", "unnamed label", "only in test"],
)
def test_data_that_cannot_be_used_leave_the_system_as_it_is(
    spoil: Spoil, file: str, message: str, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = facts_of(folder)
    spoil(tmp_path / "data")
    where = str(tmp_path / "data" / file)
    code, said = refused(capsys, "extend", "add", "zoo", "new", "--data", where, "--store", str(folder))
    assert code == DataError.exit_code
    assert re.search(message, said), said
    assert facts_of(folder) == before


@pytest.mark.parametrize(
    ("name", "message"),
    [("a", "has an agent VitTiny~a already"), ("x~y", "no name of a task"), ("x/y", "no name of a task")],
)
def test_names_that_no_task_may_have(name: str, message: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = facts_of(folder)
    code, said = refused(capsys, "extend", "add", "zoo", name, "--store", str(folder))
    assert code == ExitCode.USAGE
    assert message in said
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


@pytest.mark.slow
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


@pytest.mark.slow
def test_a_damaged_component_is_reported_and_nothing_else_is_lost(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Store.open(folder) as store:
        system = System.open(store, "zoo")
        part = system.best("a").components[-1]
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

"""What the tests of the commands share."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from evodevo.cli.application import run
from evodevo.multitask.settings import AgentSettings
from evodevo.storage import Store
from evodevo.testing.multitask.paths import PathTrainer, executor_of, new_system, tasks_of

if TYPE_CHECKING:
    from ..conftest import Small


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is written into the cache of whoever runs the tests."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


Ask = Callable[..., dict[str, Any]]


@pytest.fixture
def ask(small: Small, capsys: pytest.CaptureFixture[str]) -> Ask:
    """A reading command with ``--json``; gives its document."""

    def answer(*arguments: str) -> dict[str, Any]:
        capsys.readouterr()
        assert run([*arguments, "--store", str(small.store), "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    return answer


Refuse = Callable[..., None]


@pytest.fixture
def refuse(capsys: pytest.CaptureFixture[str]) -> Refuse:
    """``refuse(words, code, wanted)``: a command that ends so, with one line on stderr that says what is wanted."""

    def check(words: list[str], code: int, wanted: str) -> None:
        capsys.readouterr()
        assert run(words) == code, words
        seen = capsys.readouterr()
        assert seen.out == ""
        (line,) = seen.err.splitlines()
        assert wanted in line, words

    return check


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with a system of two tasks after two cycles, and another one without any task."""
    path = tmp_path_factory.mktemp("extend") / "runs"
    with Store.open(path) as store:
        system = new_system(store)
        system.add_agent("MultiVitTiny", "a", AgentSettings(classes=3))
        trainer = PathTrainer(store)
        trainer.fail = lambda job: job["seed"] % 7 == 0
        system.run(tasks_of(system), 2, executor_of(trainer))
        new_system(store, (), name="bare")
    return path

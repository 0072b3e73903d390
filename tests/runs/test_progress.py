"""The bar of a run that is begun from Python."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from evodevo.execution.serial import SerialExecutor
from evodevo.runs.progress import shown
from evodevo.search.settings import StudySettings
from evodevo.search.study import Study
from evodevo.testing.real_vector import RealVectorSpace, zdt1


def searched(progress: bool | None, console: Console, listener: Any = None) -> str:
    """What is written while a small search runs."""
    with shown(progress, listener, None, console) as (listen, start):
        study = Study(
            RealVectorSpace(3),
            zdt1,
            goals=("first", "second"),
            executor=SerialExecutor(),
            settings=StudySettings(population=4, generations=3),
            listener=listen,
        )
        if start is not None:
            start(study)
        study.run()
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def terminal(**options: Any) -> Console:
    return Console(file=io.StringIO(), force_terminal=True, width=100, **options)


def test_a_bar_is_shown_where_it_is_wanted() -> None:
    text = searched(True, terminal())
    assert "finished" in text
    assert "12 evaluations" in text
    assert "finished" in searched(True, Console(file=io.StringIO(), width=100)), "also into a file, where asked for"
    assert searched(False, terminal()) == ""


def test_of_itself_it_is_shown_on_a_terminal_alone() -> None:
    assert "finished" in searched(None, terminal())
    assert searched(None, Console(file=io.StringIO(), force_terminal=False)) == ""
    heard: list[str] = []
    assert searched(None, terminal(), lambda kind, facts: heard.append(kind)) == "", "the caller shows it"
    assert heard[-1] == "finished"


def test_a_listener_of_the_caller_is_called_too() -> None:
    heard: list[str] = []
    assert "finished" in searched(True, terminal(), lambda kind, facts: heard.append(kind))
    assert heard.count("evaluated") == 12


def test_an_error_of_the_run_leaves_the_bar() -> None:
    with pytest.raises(RuntimeError, match="stopped"), shown(True, None, None, terminal()):
        raise RuntimeError("stopped")


def test_the_least_error_of_the_trainings_that_run_is_in_the_bar() -> None:
    console = terminal()
    with shown(True, None, None, console) as (listen, start):
        assert listen is not None
        assert start is not None
        for identity, error in (("a", 0.5), ("b", 0.25)):
            listen("started", {"id": identity, "seed": 0})
            listen("progress", {"id": identity, "seed": 0, "share": 0.1, "validation_error": error})
    assert isinstance(console.file, io.StringIO)
    assert "error 0.2500" in console.file.getvalue()

"""Events of another shape, sealed anew as if evodevo had written them: commands name the event, and make no mistake."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from evodevo.cli.application import run
from evodevo.errors import ExitCode
from evodevo.storage import Store
from evodevo.testing.stores.sealing import seal_anew

if TYPE_CHECKING:
    from ..conftest import Small


def with_event(whole: Path, folder: Path, kind: str, payload: Any) -> Path:
    """A copy of a store in which the last event of a type holds something else."""
    shutil.copytree(whole, folder)
    with closing(sqlite3.connect(folder / "store.db", isolation_level=None)) as database:
        ((name, trigger),) = database.execute("SELECT name, sql FROM sqlite_master WHERE name = 'event_no_update'")
        database.execute(f"DROP TRIGGER {name}")
        where = "WHERE seq = (SELECT max(seq) FROM event WHERE type = ?)"
        assert database.execute(f"UPDATE event SET payload = ? {where}", (json.dumps(payload), kind)).rowcount == 1
        database.execute(trigger)
    with Store.open(folder) as store, store._database.writing() as connection:
        seal_anew(connection)
    return folder


WHOLE = {"front": [], "hypervolume": 0.5, "reference": None, "evaluated": 4, "failed": 0}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "payload", "command"),
    [
        ("generation", {}, "resume"),
        ("generation", WHOLE | {"front": 7}, "resume"),
        ("generation", WHOLE | {"reference": 3}, "resume"),
        ("generation", WHOLE | {"evaluated": []}, "status"),
        ("generation", WHOLE | {"population": 3}, "report"),
        ("study.time", {}, "report"),
        ("study.time", {"wall_seconds": "x", "waited_seconds": 1.0}, "report"),
        ("run.command", {}, "report"),
        ("run.command", {"words": "evolve"}, "report"),
    ],
)
def test_an_event_of_another_shape_is_named(
    small: Small, tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str, payload: Any, command: str
) -> None:
    folder = with_event(small.store, tmp_path / "copy", kind, payload)
    output = ["--output", str(tmp_path / "report.html")] if command == "report" else []
    assert run([command, "last", "--store", str(folder), *output]) == ExitCode.STORE_DAMAGED
    (line,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("evodevo: ")]
    assert f"({kind}) has " in line
    assert "that evodevo did not write" in line

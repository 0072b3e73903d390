"""``evodevo store``: what its commands print, and that they change nothing else."""

from __future__ import annotations

import json
import shutil
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import select

from evodevo.cli.application import run
from evodevo.errors import ExitCode
from evodevo.scratch import PREFIX, scratch
from evodevo.storage import Store, seals
from evodevo.storage.schema import evaluation_table, event_table, score_table
from evodevo.testing.storages import newborn

if TYPE_CHECKING:
    from ..conftest import Small


def asked(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, Any]]:
    capsys.readouterr()
    code = run([*arguments, "--json"])
    return code, json.loads(capsys.readouterr().out)


@pytest.fixture
def folder(small: Small, tmp_path: Path) -> Path:
    """A copy of the store of a small search."""
    target = tmp_path / "runs"
    shutil.copytree(small.store, target)
    return target


def test_a_sound_store_is_checked_packed_unpacked_copied_and_backed_up(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, seen = asked(capsys, "store", "check", "--store", str(folder))
    assert (code, seen["problems"]) == (0, [])
    fronts = asked(capsys, "front", "last", "--store", str(folder))
    code, packed = asked(capsys, "store", "pack", str(tmp_path / "runs.evo"), "--store", str(folder))
    assert (code, packed["blobs"]) == (0, seen["blobs"])
    assert asked(capsys, "store", "unpack", str(tmp_path / "runs.evo"), str(tmp_path / "again"))[0] == 0
    assert asked(capsys, "store", "copy", str(folder), str(tmp_path / "copy"))[0] == 0
    for name in ("again", "copy"):
        assert asked(capsys, "front", "last", "--store", str(tmp_path / name)) == fronts
    code, saved = asked(capsys, "store", "backup", "--store", str(folder))
    assert code == 0
    assert Path(saved["path"]).parent == folder / "backups"
    assert run(["store", "unpack", str(tmp_path / "runs.evo"), str(tmp_path / "again")]) == ExitCode.USAGE
    assert run(["store", "pack", str(tmp_path / "more.evo"), "--store", str(tmp_path / "none")]) == ExitCode.NOT_FOUND


def test_gc_deletes_what_nothing_holds(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import os

    with Store.open(folder) as store:
        orphan = store.blobs.put_bytes(b"nobody's")
        os.utime(store.blobs.path(orphan), (0, 0))
    code, seen = asked(capsys, "store", "gc", "--dry-run", "--store", str(folder))
    assert (code, seen["blobs"], seen["bytes"]) == (0, 1, 8)
    assert asked(capsys, "store", "gc", "--store", str(folder))[1]["blobs"] == 1
    assert asked(capsys, "store", "gc", "--store", str(folder))[1]["blobs"] == 0


def test_gc_removes_the_temporary_folders_of_processes_that_have_ended(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    with scratch() as living:
        killed = Path(shutil.copytree(living, living.with_name(f"{PREFIX}12345678")))
        for flags in (("--dry-run",), ()):
            assert killed.exists()
            assert asked(capsys, "store", "gc", *flags, "--store", str(folder))[1]["folders"] == [str(killed)]
        assert list(temporary.iterdir()) == [living]


def test_a_changed_score_is_damage_to_every_command_until_it_is_repaired(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with closing(sqlite3.connect(folder / "store.db")) as database:
        database.execute("UPDATE score SET value = value / 2 WHERE rowid = 1")
        database.commit()
    for command in (["front", "last"], ["show", "last"], ["status"], ["pick", "last"]):
        assert run([*command, "--store", str(folder)]) == ExitCode.STORE_DAMAGED, command
        assert "evodevo store check" in capsys.readouterr().err
    assert asked(capsys, "store", "check", "--store", str(folder))[0] == ExitCode.STORE_DAMAGED
    code, seen = asked(capsys, "store", "repair", "--store", str(folder))
    assert (code, len(seen["evaluations_to_redo"])) == (0, 1)
    assert run(["front", "last", "--store", str(folder)]) == 0


def resealed(store: Store, run_id: str, seq: int, payload: dict[str, Any]) -> None:
    """Change an event and seal it anew, as somebody who knows how can do it."""
    with store._database.writing() as connection:
        connection.exec_driver_sql("DROP TRIGGER event_no_update")
        table = event_table
        connection.execute(table.update().where(table.c.seq == seq).values(payload=json.dumps(payload)))
        row = connection.execute(table.select().where(table.c.seq == seq)).one()
        seals.put(connection, run_id, seals.EVENT, {str(seq): seals.digest(table, row._mapping)})
        trigger = "BEFORE UPDATE ON event BEGIN SELECT RAISE(ABORT, 'rows of event are kept for ever'); END"
        connection.exec_driver_sql(f"CREATE TRIGGER event_no_update {trigger}")


def test_a_front_that_is_not_that_of_the_scores_is_found(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Only the derivation finds it, also in a run that goes on."""
    with Store.open(folder) as store:
        (run_row,) = store.runs()
        lease, first = store.acquire(run_row.id), store.individuals(run_row.id)[0]
        same = {"genome_envelope": first.genome_envelope, "genome_hash": first.genome_hash}
        store.add_individuals(lease, [newborn(run_row.id, "9/0", **same)])
        store.release(lease)
        chosen = next(event for event in store.events(run_row.id) if event.type == "generation")
        resealed(store, run_row.id, chosen.seq, {**chosen.payload, "front": chosen.payload["front"][:-1]})
    code, seen = asked(capsys, "store", "check", "--store", str(folder))
    assert code == ExitCode.STORE_DAMAGED
    assert [problem["message"] for problem in seen["problems"]] == [
        "its recorded front is not that of the recorded scores"
    ]


@pytest.mark.parametrize("changed", ["front", "hypervolume"])
def test_what_is_derived_otherwise_is_no_damage_that_repair_denies(
    folder: Path, capsys: pytest.CaptureFixture[str], changed: str
) -> None:
    with Store.open(folder) as store:
        (run_row,) = store.runs()
        chosen = next(event for event in store.events(run_row.id) if event.type == "generation")
        other = {"front": chosen.payload["front"][:-1], "hypervolume": chosen.payload["hypervolume"] * 1.01}
        resealed(store, run_row.id, chosen.seq, {**chosen.payload, changed: other[changed]})
    wanted = [f"its recorded {changed} is not that of the recorded scores"]
    for command in (["store", "check"], ["repair", "--check"], ["store", "repair"]):
        code, seen = asked(capsys, *command, "--store", str(folder))
        assert code == ExitCode.STORE_DAMAGED, command
        assert [problem["message"] for problem in seen["problems"]] == wanted
    assert run(["repair", "--store", str(folder)]) == ExitCode.STORE_DAMAGED
    assert "put a backup back" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("column", "value"), [("held", "abc"), ("boot", b"\xff\xfe"), ("pid", "x"), ("heartbeat", -1), ("token", 1.5)]
)
def test_a_lease_that_nobody_wrote_so_is_found_and_given_up(
    folder: Path, capsys: pytest.CaptureFixture[str], column: str, value: object
) -> None:
    with closing(sqlite3.connect(folder / "store.db")) as database:
        database.execute("PRAGMA ignore_check_constraints=ON")
        cast = "CAST(? AS TEXT)" if isinstance(value, bytes) else "?"
        database.execute(f"UPDATE lease SET {column} = {cast}", (value,))
        database.commit()
    for command in (["store", "check"], ["repair", "--check"]):
        code, seen = asked(capsys, *command, "--store", str(folder))
        assert code == ExitCode.STORE_DAMAGED, command
        assert any("lease" in problem["subject"] + problem["message"] for problem in seen["problems"])
    code, seen = asked(capsys, "store", "repair", "--store", str(folder))
    assert (code, seen["problems"]) == (0, [])
    assert asked(capsys, "store", "check", "--store", str(folder))[0] == 0
    assert run(["status", "--store", str(folder)]) == 0
    (run_id,) = [row["run"] for row in asked(capsys, "status", "--store", str(folder))[1]["runs"]]
    with Store.open(folder) as store:
        store.release(store.acquire(run_id))


def test_a_rule_of_the_schema_that_a_row_breaks_is_found(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """On SQLite 3.40 its own check tells this only a connection that may write."""
    with closing(sqlite3.connect(folder / "store.db")) as database:
        database.execute("PRAGMA ignore_check_constraints=ON")
        database.execute("UPDATE blob SET state = 'elsewhere' WHERE rowid = 1")
        database.commit()
    code, seen = asked(capsys, "store", "check", "--store", str(folder))
    assert code == ExitCode.STORE_DAMAGED
    assert any("break the rule" in problem["message"] for problem in seen["problems"])


def test_a_score_that_does_not_follow_from_the_genome_is_found(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Sealed anew, and of one that is in no front: only the genome tells."""
    with Store.open(folder) as store:
        (run_row,) = store.runs()
        fronts = {name for event in store.events(run_row.id, type="generation") for name in event.payload["front"]}
        row = next(row for row in store.evaluations(run_row.id) if row.individual_id not in fronts)
        (name,) = set(row.scores) & {"cache", "parameters"}
        with store._database.writing() as connection:
            table = score_table
            mine = (table.c.evaluation_id == row.id, table.c.objective == name)
            connection.execute(table.update().where(*mine).values(value=row.scores[name].value + 1))
            belonging = connection.execute(
                select(table.c.objective, table.c.value, table.c.status).where(table.c.evaluation_id == row.id)
            ).all()
            own = connection.execute(evaluation_table.select().where(evaluation_table.c.id == row.id)).one()
            sealed = {row.id: seals.digest(evaluation_table, own._mapping, belonging)}
            seals.put(connection, run_row.id, seals.EVALUATION, sealed)
    code, seen = asked(capsys, "store", "check", "--store", str(folder))
    assert code == ExitCode.STORE_DAMAGED
    assert [problem["message"] for problem in seen["problems"]] == [f"its recorded {name} is not that of its genome"]

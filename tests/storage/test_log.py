"""A damaged write-ahead log: what it hides is an error, and what a crash leaves is none."""

from __future__ import annotations

import multiprocessing
import os
import random
import sqlite3
import struct
from multiprocessing.synchronize import Event
from pathlib import Path

import pytest

from evodevo.cli.application import run
from evodevo.errors import ExitCode, StoreDamagedError
from evodevo.storage import Store
from evodevo.storage.dialects import write_ahead_log
from evodevo.storage.opening import StoreLayout

PAGE = 4096
FRAME = 24 + PAGE


def written(folder: Path, rows: int = 40) -> bytes:
    """A log of one transaction for each row, made by SQLite."""
    connection = sqlite3.connect(folder / "some.db", isolation_level=None)
    for statement in ("journal_mode=WAL", "synchronous=FULL", "wal_autocheckpoint=0"):
        connection.execute(f"PRAGMA {statement}")
    connection.execute("CREATE TABLE t (a, b)")
    for row in range(rows):
        connection.execute("INSERT INTO t VALUES (?, ?)", (row, "x" * 300))
    log = (folder / "some.db-wal").read_bytes()
    connection.close()
    return log


def naive(data: bytes, begin: tuple[int, int] = (0, 0)) -> tuple[int, int]:
    """The checksum as the documentation writes it."""
    s, t = begin
    words = struct.unpack(f"<{len(data) // 4}I", data)
    for x, y in zip(words[::2], words[1::2], strict=True):
        s = (s + x + t) & 0xFFFFFFFF
        t = (t + y + s) & 0xFFFFFFFF
    return s, t


def test_checksums_are_those_of_the_documentation(tmp_path: Path) -> None:
    log = written(tmp_path)
    checksum = naive(log[:24])
    assert struct.unpack(">2I", log[24:32]) == checksum
    for place in range(32, len(log), FRAME):
        checksum = naive(log[place : place + 8] + log[place + 24 : place + FRAME], checksum)
        assert struct.unpack(">2I", log[place + 16 : place + 24]) == checksum
    assert write_ahead_log.first_damage(log) is None


def test_any_bit_before_the_last_transactions_is_found(tmp_path: Path) -> None:
    log, rng = written(tmp_path), random.Random(4)
    for _ in range(200):
        changed = bytearray(log)
        at = rng.randrange(len(log) - 4 * FRAME)
        changed[at] ^= 1 << rng.randrange(8)
        place = 0 if at < 32 else 32 + (at - 32) // FRAME * FRAME
        assert write_ahead_log.first_damage(bytes(changed)) == place


def test_what_a_crash_leaves_is_no_damage(tmp_path: Path) -> None:
    log = written(tmp_path)
    for length in (0, 7, 32, 40, 32 + FRAME, len(log) // 2, len(log) - 5):
        assert write_ahead_log.first_damage(log[:length]) is None
    assert write_ahead_log.first_damage(bytes(len(log))) is None, "set aside on the disk and never written"
    headless = bytes(32) + log[32:]
    assert write_ahead_log.first_damage(headless) == 0
    torn = bytearray(log)
    torn[-FRAME - 100] ^= 1  # in the last transactions: a write that was cut short looks so
    assert write_ahead_log.first_damage(bytes(torn[: len(log)])) is None
    older = bytearray(log)
    older[32 + 10 * FRAME + 8 : 32 + 10 * FRAME + 16] = b"\0" * 8  # salts of a log that was begun anew
    for place in range(32 + 10 * FRAME, len(log), FRAME):
        older[place + 8 : place + 16] = b"\0" * 8
    assert write_ahead_log.first_damage(bytes(older)) is None


def killed_writer(folder: Path) -> None:
    store = Store.open(folder)
    for _ in range(6):
        store.create_run("evolve", "backbone.demo", {}, 1)
    os._exit(0)


@pytest.fixture
def left(tmp_path: Path) -> Path:
    """The database of a store whose writer was killed."""
    process = multiprocessing.get_context("fork").Process(target=killed_writer, args=(tmp_path / "runs",))
    process.start()
    process.join()
    database = StoreLayout(tmp_path / "runs").database
    assert write_ahead_log.beside(database).stat().st_size > 12 * FRAME
    return database


def test_a_store_whose_log_was_changed_is_refused_until_it_is_repaired(
    left: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Store.open(left.parent, "ro") as store:
        assert len(store.runs()) == 6
    log = write_ahead_log.beside(left)
    data = bytearray(log.read_bytes())
    data[32 + (len(data) // FRAME - 12) * FRAME + 500] ^= 4
    log.write_bytes(data)
    for mode in ("ro", "rw"):
        with pytest.raises(StoreDamagedError, match="transactions behind it"):
            Store.open(left.parent, mode)  # type: ignore[arg-type]
    for command in (["status"], ["store", "check"], ["repair", "--check"]):
        assert run([*command, "--store", str(left.parent)]) == ExitCode.STORE_DAMAGED
        assert "store repair" in capsys.readouterr().err
    assert run(["repair", "--store", str(left.parent)]) == ExitCode.SUCCESS
    (copy,) = (left.parent / "backups").glob("damaged-*.db-wal")
    assert copy.read_bytes() == data
    with Store.open(left.parent, "ro") as store:
        assert 0 < len(store.runs()) < 6, "what was committed before it is there"
    assert run(["store", "check", "--store", str(left.parent)]) == ExitCode.SUCCESS


def busy(folder: Path, ready: Event, end: Event) -> None:
    with Store.open(folder) as store:
        ready.set()
        while not end.is_set():
            store.create_run("evolve", "backbone.demo", {}, 1)


def test_a_log_that_is_being_written_is_never_called_damaged(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    ready, end = context.Event(), context.Event()
    process = context.Process(target=busy, args=(tmp_path / "runs", ready, end))
    process.start()
    try:
        assert ready.wait(60)
        database = StoreLayout(tmp_path / "runs").database
        for _ in range(200):
            write_ahead_log.refuse_damaged(database)
    finally:
        end.set()
        process.join()

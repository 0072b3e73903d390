"""Random damage to a store: is it noticed, or does a command answer something else without a word?

A store of a small search, with curves and weights, is damaged in a copy, one random fault at a time: bits of the
database file and of a write-ahead log, whole pages, columns of rows, rows, blobs, and what a stranger may add (views,
triggers, tables). Then
``front``, ``show``, ``status`` and ``pick`` run as a user runs them. A case is

- noticed: a command ends with an exit code of its own, or ``store check`` finds it where no command reads it;
- without effect: all answers are those of before, and the check finds nothing (free pages, an index's empty space);
- SILENT: an answer is another one, and no command reports an error;
- a HANG: a command did not end in time; a CRASH: it ended with a traceback.

    python benchmarks/faults/damage.py --cases 500 --seed 0
"""

from __future__ import annotations

import contextlib
import io
import json
import random
import shutil
import signal
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from campaign import Campaign, Case

from evodevo.cli.application import run
from evodevo.errors import ExitCode
from evodevo.storage import Store

SECONDS = 20
COMMANDS = (["front", "last"], ["show", "last"], ["status"], ["pick", "last"])
TABLES = (
    *("run", "individual", "parentage", "evaluation", "score", "series", "event", "blob_reference", "blob"),
    *("seal", "lease"),
)
PAGE = 4096
HEADER, FRAME = 32, 24 + PAGE
"""Bytes of the header of a write-ahead log, and of a frame."""
LOG, LOGGED = "log", "logged"
"""The fault, and the folder of the store with the log of a writer that was killed."""
SEARCH = (
    *("evolve", "backbone.demo", "--set", "space.depth=4", "--set", "space.dimensions.width=16"),
    *("--set", "space.dimensions.head_size=4", "--set", "evaluation.language.context_length=16"),
    *("--set", "evaluation.training.budget.tokens=256", "--set", "evaluation.validation_tokens=256"),
    *("--set", "study.population=4", "--set", "study.generations=2", "--set", "execution.executor=serial"),
)
IMPORTS = ("evodevo.storage", "evodevo.backbone.problem", "evodevo.backbone.report", "evodevo.runs.pick")
PROMISES = {
    "SILENT": "no other answer without an error",
    "HANG": "every command ends",
    "CRASH": "no command ends with a traceback",
}
Fault = Callable[[Path, random.Random], str]


class HangError(Exception):
    """A command that did not end in time."""


@contextlib.contextmanager
def limit(seconds: int) -> Iterator[None]:
    """Raise ``HangError`` after so many seconds."""

    def ring(number: int, frame: object) -> None:
        raise HangError

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def ask(folder: Path, command: list[str]) -> tuple[int, str, str]:
    """Exit code, document and words of a command."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), limit(SECONDS):
        code = run([*command, "--store", str(folder), "--json"])
    # Answers may name the store's place, which differs between cases.
    return code, out.getvalue().replace(str(folder), "runs"), err.getvalue()


def answers(folder: Path, commands: Sequence[list[str]]) -> list[tuple[int, str, str]]:
    """What all commands answer."""
    return [ask(folder, command) for command in commands]


# Faults. Each changes a copy of the store and returns what it did.


def flip_bits(folder: Path, rng: random.Random) -> str:
    """One to eight bits anywhere in the database file."""
    path = folder / "store.db"
    data = bytearray(path.read_bytes())
    places = [rng.randrange(len(data) * 8) for _ in range(rng.randint(1, 8))]
    for place in places:
        data[place // 8] ^= 1 << place % 8
    path.write_bytes(data)
    return f"bits {places}"


def damage_page(folder: Path, rng: random.Random) -> str:
    """A page of zeros, of noise, or of another page's bytes; or a file that ends early."""
    path = folder / "store.db"
    data = bytearray(path.read_bytes())
    count = len(data) // PAGE
    page, other, kind = rng.randrange(count), rng.randrange(count), rng.choice(("zeros", "noise", "another", "cut"))
    start = page * PAGE
    if kind == "cut":
        del data[start:]
    else:
        new = {"zeros": bytes(PAGE), "noise": rng.randbytes(PAGE), "another": data[other * PAGE : (other + 1) * PAGE]}
        data[start : start + PAGE] = new[kind]
    path.write_bytes(data)
    return f"page {page} {kind}"


def _behind(folder: Path, statement: str, values: tuple[object, ...] = ()) -> int:
    """Run a statement without triggers, keys and constraints; leave the schema as it was."""
    database = sqlite3.connect(folder / "store.db", isolation_level=None)
    triggers = database.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
    database.execute("PRAGMA ignore_check_constraints=ON")
    for name, _ in triggers:
        database.execute(f"DROP TRIGGER {name}")
    try:
        return database.execute(statement, values).rowcount
    except sqlite3.IntegrityError:
        return 0
    finally:
        for _, sql in triggers:
            database.execute(sql)
        database.close()


def _filled(database: sqlite3.Connection, tables: Sequence[str]) -> list[str]:
    """Those of the tables that have rows."""
    return [table for table in tables if database.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchone()]


def change_column(folder: Path, rng: random.Random, tables: Sequence[str] = TABLES) -> str:
    """Another value in one column of one row."""
    database = sqlite3.connect(folder / "store.db")
    table = rng.choice(_filled(database, tables))
    columns = [row[1] for row in database.execute(f"PRAGMA table_info({table})")]
    keys = [row[1] for row in database.execute(f"PRAGMA table_info({table})") if row[5]]
    rows = database.execute(f"SELECT {', '.join(keys)} FROM {table}").fetchall()
    column, row = rng.choice(columns), rng.choice(rows)
    where = " AND ".join(f"{key} = ?" for key in keys)
    (before,) = database.execute(f"SELECT {column} FROM {table} WHERE {where}", row).fetchone()
    database.close()
    number = before if isinstance(before, int | float) else 0
    text = str(before)
    swapped = text[: len(text) // 2] + rng.choice("0a}") + text[len(text) // 2 + 1 :]
    new = rng.choice([number + 1, number / 2, None, "", swapped, rng.randbytes(8), -1])
    done = _behind(folder, f"UPDATE {table} SET {column} = ? WHERE {where}", (new, *row))
    return f"{table}.{column}: {str(before)[:30]!r} -> {new!r} ({done} rows)"


def lose_row(folder: Path, rng: random.Random, tables: Sequence[str] = TABLES) -> str:
    """One row less, or one row twice under another key."""
    database = sqlite3.connect(folder / "store.db")
    table = rng.choice(_filled(database, tables))
    keys = [row[1] for row in database.execute(f"PRAGMA table_info({table})") if row[5]]
    row = rng.choice(database.execute(f"SELECT {', '.join(keys)} FROM {table}").fetchall())
    database.close()
    where = " AND ".join(f"{key} = ?" for key in keys)
    done = _behind(folder, f"DELETE FROM {table} WHERE {where}", row)
    return f"{table} {row} deleted ({done} rows)"


def damage_blob(folder: Path, rng: random.Random) -> str:
    """A bit, the length or the existence of a blob."""
    path = rng.choice(sorted((folder / "blobs" / "sha256").glob("*/*")))
    kind = rng.choice(("bit", "cut", "gone", "link"))
    data = bytearray(path.read_bytes())
    if kind == "bit":
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        path.write_bytes(data)
    elif kind == "cut":
        path.write_bytes(data[: rng.randrange(len(data))])
    elif kind == "gone":
        path.unlink()
    else:
        path.rename(folder / "elsewhere")
        path.symlink_to(folder / "elsewhere")
    return f"blob {path.name[:8]} {kind}"


PROGRAMS = (
    "CREATE VIEW more AS SELECT * FROM score",
    "CREATE TRIGGER more AFTER UPDATE ON run BEGIN UPDATE score SET value = value / 2; END",
    "CREATE TRIGGER more AFTER INSERT ON event BEGIN DELETE FROM seal; END",
    "CREATE TABLE more (name TEXT)",
    "CREATE INDEX more ON individual (operation)",
    "ALTER TABLE score ADD COLUMN more TEXT DEFAULT 'x'",
    "ALTER TABLE score RENAME TO more",
    "DROP TABLE series",
    "DROP INDEX event_by_run",
)
HALVED = """
ALTER TABLE score RENAME TO hidden;
CREATE VIEW score AS SELECT evaluation_id, objective, value / 2 AS value, status FROM hidden
"""
ENDLESS = """
ALTER TABLE run RENAME TO hidden;
CREATE VIEW run AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT hidden.* FROM hidden, n
"""


def add_program(folder: Path, rng: random.Random) -> str:
    """A view, trigger, table, index or column that evodevo did not make, or one less."""
    script = rng.choice((*PROGRAMS, HALVED, ENDLESS))
    database = sqlite3.connect(folder / "store.db")
    database.execute("PRAGMA legacy_alter_table=ON")
    database.executescript(script)
    database.close()
    return script[:60]


def damage_log(folder: Path, rng: random.Random) -> str:
    """A bit of the write-ahead log that a killed writer left, before its last two transactions.

    A change behind that looks as a write that was cut short, and is not told from one (SECURITY.md).
    """
    path = folder / "store.db-wal"
    data = bytearray(path.read_bytes())
    commits = [at for at in range(HEADER, len(data), FRAME) if any(data[at + 4 : at + 8])]
    place = rng.randrange(8 * commits[-2])
    data[place // 8] ^= 1 << place % 8
    path.write_bytes(data)
    return f"bit {place} of the log, {len(commits)} transactions"


FAULTS: dict[str, Fault] = {
    "bits": flip_bits,
    "pages": damage_page,
    "columns": change_column,
    "rows": lose_row,
    "blobs": damage_blob,
    "programs": add_program,
    LOG: damage_log,
}


def make_store(shared: Path) -> None:
    """The store that is damaged, and what the commands answer before."""
    with Store.open(shared / "whole"):
        pass
    # While another connection is open, the last one of the search leaves its log where it is.
    other = sqlite3.connect(shared / "whole" / "store.db")
    other.execute("SELECT count(*) FROM run").fetchone()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        assert run([*SEARCH, "--store", str(shared / "whole"), "--json"]) == 0, "the search that is damaged"
    shutil.copytree(shared / "whole", shared / LOGGED, ignore=shutil.ignore_patterns("*-shm"))
    other.close()
    keep(shared, COMMANDS)


def keep(shared: Path, commands: Sequence[list[str]]) -> None:
    """Keep what the commands answer of the whole store."""
    database = sqlite3.connect(shared / "whole" / "store.db", isolation_level=None)
    database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    database.close()
    shutil.copytree(shared / "whole", shared / "copy")
    before = answers(shared / "copy", commands)
    assert not any(code for code, _, _ in before), before
    (shared / "before.json").write_text(json.dumps([document for _, document, _ in before]))


def judge(folder: Path, before: list[str], commands: Sequence[list[str]]) -> tuple[str, str]:
    """The verdict on a damaged store, and what shows it."""
    try:
        after = answers(folder, commands)
        codes = [code for code, _, _ in after]
        if any("Traceback" in words for _, _, words in after) or ExitCode.INTERNAL in codes:
            return "CRASH", next(words for code, _, words in after if code == ExitCode.INTERNAL or "Trace" in words)
        if any(codes):
            return "noticed", ""
        if [document for _, document, _ in after] != before:
            return "SILENT", "another answer without an error"
        code, _, words = ask(folder, ["store", "check"])
        if code == ExitCode.INTERNAL:
            return "CRASH", words
    except HangError:
        return "HANG", f"no answer in {SECONDS} s"
    return ("found by check", "") if code else ("without effect", "")


def damage(case: Case, faults: Mapping[str, Fault] = FAULTS, commands: Sequence[list[str]] = COMMANDS) -> None:
    """Damage a copy of the store, and look at what the commands say."""
    copy, kind = case.folder / "copy", list(faults)[case.number % len(faults)]
    shutil.copytree(case.shared / (LOGGED if kind == LOG else "whole"), copy)
    case.note(fault=kind, what=faults[kind](copy, case.rng))
    verdict, words = judge(copy, json.loads((case.shared / "before.json").read_text()), commands)
    case.note(verdict=verdict)
    case.count(kind, verdict)
    case.count("all", verdict)
    for broken, promise in PROMISES.items():
        case.promise(promise, words if verdict == broken else "")


if __name__ == "__main__":
    Campaign("damage", damage, make_store, imports=IMPORTS).main(__doc__, cases=500)

"""Payloads of another shape, sealed anew as if evodevo had written them: an error with a row's name, or no effect?

Somewhere inside the JSON of one row (settings, genome, details, cost, facts, event) a value is taken away or becomes
another thing, in a copy of the store of a small search (even cases) or of a multitask system (odd ones). Seals are no
signatures: whoever can write the file can seal it, so other answers are not noticed. What is promised is that every
command ends, with an answer or with an error of its own, never with a mistake of evodevo.

    python benchmarks/faults/shapes.py --cases 400 --seed 0
"""

from __future__ import annotations

import json
import random
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import damage
import damage_systems
from campaign import Campaign, Case
from damage import HangError

from evodevo.errors import ExitCode
from evodevo.storage import Store
from evodevo.testing.stores.sealing import seal_anew

PAYLOADS = {
    "run": ("settings", "space", "versions"),
    "individual": ("genome_envelope", "details"),
    "evaluation": ("cost", "extra"),
    "event": ("payload",),
    "cycle": ("retained",),
}
OTHER: tuple[Any, ...] = (
    *(None, True, -1, 3, 1e300, "x", "", "9" * 40),
    *([], {}, [1, [2]], {"a": {"b": []}}),
)
KINDS = ("search", "system")
PAGE = ("--output", "{folder}/report.html")
CHECK = ["store", "check"]
# The last command writes to the store: the others answer of what was changed.
COMMANDS = {
    "search": (
        *(*damage.COMMANDS, ["lineage", "last"], ["diff", "last", "last"]),
        *(["report", "last", *PAGE], CHECK, ["resume", "last", "--generations", "3"]),
    ),
    "system": (
        *(*damage_systems.COMMANDS, ["extend", "status", "zoo", "--transfer"]),
        *(["report", "zoo", *PAGE], CHECK, ["extend", "run", "zoo", "--cycles", "1", "--executor", "serial"]),
    ),
}
IMPORTS = (*damage.IMPORTS, *damage_systems.IMPORTS, "evodevo.runs.report.page", "evodevo.multitask.report.page")


def places(value: Any, here: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Paths of keys and indices to everything inside a JSON value, itself first."""
    yield here
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in inner:
        yield from places(one, (*here, key))


def changed(value: Any, rng: random.Random) -> tuple[Any, str]:
    """The value with another thing somewhere inside, and words for it."""
    place = rng.choice(list(places(value)))
    other = rng.choice(OTHER)
    if not place:
        return other, f"whole -> {other!r}"
    holder = value
    for key in place[:-1]:
        holder = holder[key]
    if rng.random() < 0.3:
        del holder[place[-1]]
        return value, f"{place} deleted"
    holder[place[-1]] = other
    return value, f"{place} -> {other!r}"


def change_payload(folder: Path, rng: random.Random) -> str:
    """Change one payload behind evodevo's back, and seal the store anew."""
    with sqlite3.connect(folder / "store.db") as database:
        table, column = rng.choice([(table, one) for table, columns in PAYLOADS.items() for one in columns])
        rows = database.execute(f"SELECT rowid, {column} FROM {table}").fetchall()
    database.close()
    if not rows:
        return f"{table} has no rows"
    row, text = rng.choice(rows)
    try:
        before = json.loads(text)
    except ValueError:  # a plain text
        before = text
    value, words = changed(before, rng)
    damage._behind(folder, f"UPDATE {table} SET {column} = ? WHERE rowid = ?", (json.dumps(value), row))
    with Store.open(folder) as store, store._database.writing() as connection:
        seal_anew(connection)
    return f"{table}.{column} {row}: {words}"


def make_stores(shared: Path) -> None:
    """The stores that are changed."""
    for kind, maker in zip(KINDS, (damage.make_store, damage_systems.make_store), strict=True):
        (shared / kind).mkdir()
        maker(shared / kind)


def commands(kind: str, folder: Path) -> list[list[str]]:
    """What is asked of a changed store; reports go to a file in the folder."""
    return [[word.replace("{folder}", str(folder)) for word in command] for command in COMMANDS[kind]]


def shape(case: Case) -> None:
    """Change a payload in a copy of a store, and look at what the commands say."""
    kind, copy = KINDS[case.number % 2], case.folder / "copy"
    shutil.copytree(case.shared / kind / "whole", copy)
    case.note(store=kind, what=change_payload(copy, case.rng))
    broken = dict.fromkeys(("HANG", "CRASH"), "")
    verdict = "answered"
    for command in commands(kind, case.folder):
        try:
            code, _, words = damage.ask(copy, command)
        except HangError:
            broken["HANG"] = f"{' '.join(command)}: no answer in {damage.SECONDS} s"
            continue
        if code == ExitCode.INTERNAL or "Traceback" in words:
            broken["CRASH"] = f"{' '.join(command)}: {words.strip()}"
        verdict = "refused" if code and verdict == "answered" else verdict
    verdict = next((name for name, words in broken.items() if words), verdict)
    case.note(verdict=verdict)
    case.count(kind, verdict)
    case.count("all", verdict)
    for name, words in broken.items():
        case.promise(damage.PROMISES[name], words)


if __name__ == "__main__":
    Campaign("shapes", shape, make_stores, imports=IMPORTS).main(__doc__, cases=400)

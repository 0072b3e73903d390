"""The program that made the stores beside it: one of each kind, by commit 1a4e4f9, with the answers that it gave.

Run: python tests/golden/make_stores.py TREE, where TREE is a checkout of that commit. Every command is in ``STORES``.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
PLACE = "/fixture"
"""Stands in the stored settings for the folder in which a store was made; whoever unpacks one puts his own there."""

SEARCH = """
[space]
depth = 4
dimensions.width = 16
dimensions.head_size = 4

[evaluation]
language.context_length = 16
training.budget.tokens = 256
training.batch_size = 4
validation_tokens = 256

[study]
population = 3
generations = 3
confirmations = 0

[execution]
executor = "serial"
"""

EXPERIMENT = """
[experiment]
arms = [
  {name = "H-Model", role = "h_model", network = {kind = "h_model", structure = {width = 8, iterations = 2, input_blocks = 0, hidden = [{kind = "transformer", heads = 2}, {kind = "transformer", heads = 4}]}}},
  {name = "stack", role = "transformer", network = {kind = "stack", structure = {width = 8, input_blocks = 0, layers = [{kind = "transformer", heads = 2}]}}},
]

[evaluation]
training.budget = {steps = 12}
training.batch_size = 4
training.checkpoint_every = 6
training.report_every = 2
validation_samples = 32
test_samples = 32
curve_points = 3
curve_samples = 16
trace_samples = 4
probes = []
seconds = 600.0

[execution]
executor = "serial"
"""  # noqa: E501  # an inline table of TOML is one line

GROWN = """
[zoo]
width = 8
extractor.blocks = 0
modules = "mlp,squeeze_excite"

[grow]
events = {count = 2, first = 0.25, last = 0.625, warm = 0.125, horizon = 0.125, looks = 0}
fitness.samples = 16
prune = {distil_steps = 1, age = 0, least = 1, patience = 1}

[evaluation]
training.budget = {steps = 16}
training.batch_size = 4
validation_samples = 16
test_samples = 16
curve_points = 2
curve_samples = 16
exchange = false
seconds = 600.0

[execution]
executor = "serial"
"""

SYSTEM = """
cycle = {samples = 2, generation_size = 2}
training = {validations = 2, most_between = 64, device = "cpu"}
root.structure = {width = 8, heads = 2, hidden = 16}
root.hyperparameters.num_layers = {values = [0, 1, 2], default = 1}
root.hyperparameters.ds_image_size = {values = [8, 16], default = 8}
"""


@dataclass(frozen=True)
class Kind:
    """How a store is made.

    Attributes:
        config: ``config.toml`` beside the store.
        commands: that make it, one after another, each with ``--store runs --json``.
        until: an event of the last command, and its how-manieth is the last before it is stopped; None lets it end.
        stop: the signal that stops it.
        asked: commands whose answers are recorded.
        goes_on: the command that goes on.
    """

    config: str
    commands: tuple[str, ...]
    until: tuple[str, int] | None
    stop: signal.Signals
    asked: tuple[str, ...]
    goes_on: str


STORES = {
    "search": Kind(
        SEARCH,
        ("evolve backbone.demo --config config.toml --data text --seed 3",),
        ("evaluated", 6),
        signal.SIGINT,
        ("status", "status last", "front last", "pick last", "show last", "report last --output page.html"),
        "resume last",
    ),
    "experiment": Kind(
        EXPERIMENT,
        ("train h_model.pointer --config config.toml",),
        ("checkpoint", 3),
        signal.SIGKILL,
        ("status", "status last", "show last", "report last --output page.html"),
        "resume last",
    ),
    "grown": Kind(
        GROWN,
        ("grow module_zoo.classifier --config config.toml --strategist random --seeds 2",),
        ("checkpoint", 8),
        signal.SIGKILL,
        ("status", "status last", "show last", "report last --output page.html"),
        "resume last",
    ),
    "system": Kind(
        SYSTEM,
        (
            "extend create zoo --class VitTiny --config config.toml --seed 2",
            "extend add zoo digits --multi",
            "extend add zoo digits_parity --question parity",
            "extend run zoo --agents single,multi --test",
        ),
        None,
        signal.SIGKILL,
        (
            "extend status",
            "extend status zoo",
            "extend status zoo --task digits --children",
            "extend graph zoo",
            "report zoo --output page.html",
        ),
        "extend run zoo --agents single,multi --cycles 2",
    ),
}


def text(folder: Path) -> None:
    """A corpus of forty small files."""
    folder.mkdir()
    for number in range(40):
        lines = [f"def function_{number}_{line}(value):\n    return value * {line}\n" for line in range(12)]
        (folder / f"file_{number}.txt").write_text("".join(lines), encoding="utf-8")


def command(tree: Path, folder: Path, line: str, kind: Kind | None = None) -> None:
    """Carry out one command; with a kind it is stopped as that says."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(tree / "src"),
        "OMP_NUM_THREADS": "1",
        "XDG_CACHE_HOME": str(folder.parent / "cache"),
    }
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "evodevo.cli", *line.split(), "--store", "runs", "--json"],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    left = kind.until[1] if kind is not None and kind.until is not None else -1
    for said in process.stdout:
        event = json.loads(said)
        left -= (
            kind is not None
            and kind.until is not None
            and (event.get("type") == kind.until[0] or kind.until[0] in event)
        )
        if left == 0:
            assert kind is not None
            process.send_signal(kind.stop)
            left = -1
    code = process.wait()
    stopped = kind is not None and kind.until is not None
    if code != ({signal.SIGINT: 130, signal.SIGKILL: -9}[kind.stop] if stopped and kind is not None else 0):
        raise RuntimeError(f"{line!r} ended with {code}")


def forget_the_machine(store: Path, folder: Path) -> None:
    """The store without names of the machine and of the folder, in one file."""
    with sqlite3.connect(store / "store.db") as database:
        database.execute("UPDATE lease SET held = 0, host = 'elsewhere', boot = '', namespace = '', pid = 1, start = 0")
        database.execute("UPDATE run SET settings = replace(settings, ?, ?)", (str(folder), PLACE))
        database.commit()
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    database.close()
    for name in ("store.db-wal", "store.db-shm"):
        (store / name).unlink(missing_ok=True)


def outcome(store: Path) -> dict[str, Any]:
    """What a store holds and no processor decides: genomes, draws, edges and states."""
    database = sqlite3.connect(store / "store.db")
    queries = {
        "runs": "SELECT id, kind, recipe, seed, state FROM run ORDER BY id",
        "individuals": "SELECT id, generation, slot, operation, genome_hash, seed FROM individual ORDER BY id",
        "edges": "SELECT child_id, role, parent_id FROM parentage ORDER BY child_id, role",
        "evaluations": "SELECT individual_id, fidelity, seed FROM evaluation WHERE state = 'done' ORDER BY 1, 2, 3",
        "components": "SELECT id, number, role, parameters, individual_id FROM component ORDER BY id",
        "uses": "SELECT individual_id, place, role, component_id FROM component_use ORDER BY 1, 2",
        "publications": "SELECT seq, agent_id, cycle, individual_id FROM publication ORDER BY seq",
    }
    found = {name: [list(row) for row in database.execute(query)] for name, query in queries.items()}
    # Draws of the log-normal law may differ in their last digit from processor to processor.
    grown = (
        "SELECT individual_id, extra -> '$.growth.edits' FROM evaluation WHERE extra ->> '$.growth' NOT NULL ORDER BY 1"
    )
    found["edits"] = [
        [
            individual,
            [
                [edit["event"], edit["action"], edit["module"], edit["seed"]]
                for edit in json.loads(edits, parse_float=_six_digits)
            ],
        ]
        for individual, edits in database.execute(grown)
    ]
    database.close()
    return found


def _six_digits(text: str) -> float:
    return float(f"{float(text):.6g}")


def course(events: list[dict[str, Any]]) -> list[list[Any]]:
    """What happened, and where in its training each individual was: one that begins anew tells of more steps."""
    return [[one["type"], one.get("id"), one.get("step"), one.get("tokens"), one.get("fate")] for one in events]


def main() -> None:
    """Make all stores, or those named after the tree."""
    tree, names = Path(sys.argv[1]).resolve(), sys.argv[2:] or list(STORES)
    spec = importlib.util.spec_from_file_location("golden", HERE.parents[1] / "benchmarks" / "golden.py")
    assert spec is not None
    assert spec.loader is not None
    golden = importlib.util.module_from_spec(spec)
    sys.modules["golden"] = golden
    spec.loader.exec_module(golden)
    for name in names:
        kind = STORES[name]
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary).resolve() / name
            folder.mkdir()
            (folder / "config.toml").write_text(kind.config, encoding="utf-8")
            if name == "search":
                text(folder / "text")
            for line in kind.commands[:-1]:
                command(tree, folder, line)
            command(tree, folder, kind.commands[-1], kind)
            forget_the_machine(folder / "runs", folder)
            again = folder.parent / "again"
            shutil.copytree(folder, again)
            with sqlite3.connect(again / "runs" / "store.db") as database:
                database.execute("UPDATE run SET settings = replace(settings, ?, ?)", (PLACE, str(again)))
            database.close()
            ids = [row[0] for row in outcome(again / "runs")["individuals"]]
            asked = [*kind.asked, *(f"show {one}" for one in ids if name != "system")]
            side = golden.Side(tree, again, name, folder.parent / "cache")
            answers = {line: side.run(*line.split(), "--store", "runs") for line in asked}
            if failed := [one for one in side.record["exit codes"] if one[1]]:
                raise RuntimeError(f"{failed[0]}: {side.tail()}")
            events = course(side.run(*kind.goes_on.split(), "--store", "runs"))
            side.end()
            told = {"answers": answers, "goes_on": kind.goes_on, "course": events, "outcome": outcome(again / "runs")}
            written = json.dumps(told).replace(str(again), PLACE)
            (folder / "told.json").write_text(written, encoding="utf-8")
            (folder / "runs" / "store.lock").unlink(missing_ok=True)
            with tarfile.open(HERE / f"{name}.tar.xz", "w:xz") as archive:
                archive.add(folder, name, filter=_plain)
        print(name, (HERE / f"{name}.tar.xz").stat().st_size)


def _plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = member.mtime = 0
    member.uname = member.gname = ""
    return member


if __name__ == "__main__":
    main()

"""Whether this checkout computes what a reference commit computes: five small runs on both, compared bit for bit.

Run: python benchmarks/golden.py [--reference COMMIT|FOLDER] [--only CASE,...] [--except PATTERN ...] [--json FILE]
     (the reference is commit 1a4e4f9 where nothing else is said)
     python benchmarks/golden.py --keep FILE           also write what the reference recorded
     python benchmarks/golden.py --recorded FILE       compare with such a file: half the time, for the same machine

Both trees run on the same machine, in one thread, with the interpreter that runs this file. What runs is the command
line (``evodevo.cli.main``), and what is compared are its JSON answers and exit codes, the rows of the store's database
and its blobs; no module of the package is imported here, so that files may move between the two commits. Floats are
compared bit for bit. One line per comparison says ``equal`` or where the first difference is; the exit code is 1 if
there is any, and 2 if the comparison itself is impossible.

Run ids are the only random ids of a store. Each run of a case gets the same ones, since ``secrets.token_hex(6)`` counts
in the process that runs the commands; all other ids follow from them. Times, seconds, hosts and processes are left out.
"""

from __future__ import annotations

import argparse
import contextlib
import fnmatch
import hashlib
import json
import lzma
import os
import platform
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

REFERENCE = "1a4e4f9"
HERE = Path(__file__).resolve().parent.parent
FORMAT = 1

DRIVER = r"""
import hashlib, itertools, json, os, pathlib, secrets, sys

tree, case = sys.argv[1:3]
given, numbers = secrets.token_hex, itertools.count()


def token_hex(nbytes=None):
    return hashlib.sha256(f"{case} {next(numbers)}".encode()).hexdigest()[:12] if nbytes == 6 else given(nbytes)


secrets.token_hex = token_hex
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # nothing but answers goes to the caller
import evodevo

if not pathlib.Path(evodevo.__file__).resolve().is_relative_to(pathlib.Path(tree).resolve()):
    sys.exit(f"evodevo is read from {evodevo.__file__}, not from {tree}")
from evodevo.cli import main

for line in sys.stdin:
    sys.argv = ["evodevo", *json.loads(line)]
    with open("stdout.txt", "w", encoding="utf-8") as sys.stdout:
        try:
            main()
            code = 0
        except SystemExit as error:
            code = error.code or 0
    sys.stdout = sys.__stdout__
    print(code, file=answers, flush=True)
"""

# Facts of the moment, wherever they stand in a JSON document; settings are never masked. The first part of a checkpoint
# holds seconds, so that its digest is one of them, while its contents are compared without.
VOLATILE = re.compile(
    r"(.*[_ ])?seconds(_.*)?|paused|created|.*_at|host|pid|owner|versions|peak_memory_bytes|checkpoint"
)
SECONDS = re.compile(r"[\d.,]+ % of the time of training")
MASK = "-"

Record = dict[str, Any]
Case = Callable[["Side"], None]


@dataclass
class Side:
    """One tree that runs one case in a folder of its own.

    Attributes:
        tree: the checkout.
        folder: current folder of the commands; the store is ``runs`` in it.
        name: name of the case.
        cache: folder of prepared data.
        unequal: keys of JSON documents that differ from run to run of one commit.
        brief: ``look`` does nothing.
        record: what is compared, by the name of the comparison.
    """

    tree: Path
    folder: Path
    name: str
    cache: Path
    unequal: frozenset[str] = frozenset()
    brief: bool = False
    record: Record = field(default_factory=dict)

    def __post_init__(self) -> None:
        environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith("EVODEVO_")},
            "PYTHONPATH": str(self.tree / "src"),
            "PYTHONHASHSEED": "0",
            "OMP_NUM_THREADS": "1",
            "MKL_NUM_THREADS": "1",
            "XDG_CACHE_HOME": str(self.cache),
        }
        self.words = (self.folder / "stderr.txt").open("w", encoding="utf-8")
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-c", DRIVER, str(self.tree), self.name],
            cwd=self.folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.words,
            text=True,
        )

    def end(self) -> None:
        """Let the process of the commands end."""
        self.process.communicate()
        self.words.close()

    def run(self, *arguments: str, name: str = "") -> list[Any]:
        """One command line with ``--json``; its answer is recorded under its name, its exit code under ``exit codes``.

        Returns:
            The documents that it printed, one for each line.
        """
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        line = [*arguments, "--json"]
        self.process.stdin.write(json.dumps(line) + "\n")
        self.process.stdin.flush()
        code = self.process.stdout.readline().strip()
        if not code:
            raise RuntimeError(f"the process ended in {' '.join(line)!r}: {self.tail()}")
        name = name or next(word for word in (" ".join(arguments[:2]), arguments[0]) if word)
        self.record.setdefault("exit codes", []).append([" ".join(line), int(code)])
        text = (self.folder / "stdout.txt").read_text(encoding="utf-8")
        documents = [json.loads(one) for one in text.splitlines()]
        self.record.setdefault(f"json of {name}", []).append([" ".join(line), [self.masked(one) for one in documents]])
        return documents

    def look(self, *arguments: str, name: str = "") -> None:
        """A command that only reads; otherwise as ``run``."""
        if not self.brief:
            self.run(*arguments, name=name)

    def tail(self) -> str:
        """The last line on stderr."""
        lines = (self.folder / "stderr.txt").read_text(encoding="utf-8").strip().splitlines()
        return lines[-1] if lines else "nothing on stderr"

    def masked(self, value: Any, *, settings: bool = False) -> Any:
        """A JSON value without times, hosts, processes and the name of the folder."""
        if isinstance(value, dict):
            return {
                key: MASK
                if not settings and (VOLATILE.fullmatch(key) or key in self.unequal)
                else self.masked(one, settings=settings or key == "settings")
                for key, one in value.items()
            }
        if isinstance(value, list):
            return [self.masked(one, settings=settings) for one in value]
        return SECONDS.sub(MASK, value.replace(str(self.folder), ".")) if isinstance(value, str) else value

    def rows(self, query: str) -> list[dict[str, Any]]:
        """Rows of the store's database; columns with JSON are parsed."""
        with contextlib.closing(sqlite3.connect(f"file:{self.folder}/runs/store.db?mode=ro", uri=True)) as database:
            database.row_factory = sqlite3.Row
            return [{key: _parsed(row[key]) for key in row.keys()} for row in database.execute(query)]  # noqa: SIM118

    def ids(self, where: str = "1") -> list[str]:
        """Ids of individuals, in the order of their birth."""
        return [row["id"] for row in self.rows(f"SELECT id FROM individual WHERE {where} {BIRTH}")]

    def dump(self) -> None:
        """Record what the store holds; a table without rows is left out."""
        self.record["settings"] = [self.masked(row, settings=True) for row in self.rows(SETTINGS)]
        for name, query in TABLES.items():
            if rows := self.rows(query):
                self.record[name] = [self.masked(row) for row in rows]
        series = self.rows("SELECT evaluation_id, name, points FROM series ORDER BY evaluation_id, name")
        self.record["series"] = [
            self.masked({"evaluation": row["evaluation_id"], f"series {row['name']}": row["points"]}) for row in series
        ]
        names, contents = [], []
        present = {row["digest"] for row in self.rows("SELECT digest FROM blob WHERE state = 'present'")}
        for row in self.rows(REFERENCES):
            # The first part of a checkpoint holds seconds.
            timed = row["role"].startswith("checkpoint/") and row["role"].count("/") == 2
            names.append({**row, "digest": MASK if timed else row["digest"]})
            blob = self.blob(row["digest"]) if row["digest"] in present else "gone"
            contents.append([row["owner_id"], row["role"], blob])
        self.record["blobs' names"], self.record["blobs' contents"] = names, contents

    def blob(self, digest: str) -> Any:
        """Tensors of a blob by name with their kind, shape and hash; a JSON document itself; else the hash."""
        data = (self.folder / "runs" / "blobs" / "sha256" / digest[:2] / digest).read_bytes()
        with contextlib.suppress(ValueError, KeyError, TypeError):
            length = int.from_bytes(data[:8], "little")
            header = json.loads(data[8 : 8 + length]) if 2 <= length <= len(data) - 8 else None
            if isinstance(header, dict):
                tensors: dict[str, Any] = {}
                for name, one in header.items():
                    if name == "__metadata__":
                        tensors[name] = self.masked(one)
                        continue
                    first, end = (8 + length + offset for offset in one["data_offsets"])
                    tensors[name] = [one["dtype"], one["shape"], hashlib.sha256(data[first:end]).hexdigest()[:16]]
                return tensors
        with contextlib.suppress(ValueError):
            return self.masked(json.loads(data))
        return hashlib.sha256(data).hexdigest()


def _parsed(value: Any) -> Any:
    if isinstance(value, bytes):
        return hashlib.sha256(value).hexdigest()
    if isinstance(value, str) and value[:1] in ("{", "["):
        with contextlib.suppress(ValueError):
            return json.loads(value)
    return value


# What is compared of the database. Rows come in an order that follows from what they are, never from when they were
# written; only events keep theirs.
BIRTH = "ORDER BY run_id, generation, slot, birth"
REFERENCES = "SELECT owner_kind, owner_id, role, released, digest FROM blob_reference ORDER BY 1, 2, 3"
SETTINGS = "SELECT id, kind, recipe, seed, state, space, settings FROM run ORDER BY id"
EVALUATIONS = """SELECT id, individual_id, fidelity, seed, attempt, state, reason, detail, cost, extra FROM evaluation
ORDER BY run_id, individual_id, fidelity, seed, attempt"""
PATHS = """SELECT individual_id, agent_id, number, cycle, first_component, end_component FROM path
ORDER BY agent_id, number"""
COMPONENTS = """SELECT id, agent_id, number, role, parameters, individual_id, digest FROM component
ORDER BY agent_id, number"""
USES = "SELECT individual_id, place, role, component_id FROM component_use ORDER BY individual_id, place"
CYCLES = "SELECT agent_id, number, round, view_seq, state, retained FROM cycle ORDER BY agent_id, number"
TABLES = {
    "genomes": "SELECT id, birth, genome_envelope, genome_hash FROM individual " + BIRTH,
    "draws": "SELECT id, generation, slot, operation, details, seed FROM individual " + BIRTH,
    "edges": "SELECT child_id, role, parent_id FROM parentage ORDER BY child_id, role",
    "events": "SELECT run_id, type, subject, payload FROM event ORDER BY seq",
    "evaluations": EVALUATIONS,
    "scores": "SELECT evaluation_id, objective, value, status FROM score ORDER BY evaluation_id, objective",
    "schema": "SELECT version_num FROM schema_revision",
    "agents": "SELECT run_id, system_id, name, class, task FROM agent ORDER BY name",
    "cycles": CYCLES,
    "paths": PATHS,
    "components": COMPONENTS,
    "uses of components": USES,
    "paths inside paths": "SELECT individual_id, place, subpath_id FROM subpath ORDER BY individual_id, place",
    "publications": "SELECT system_id, seq, agent_id, cycle, individual_id FROM publication ORDER BY seq",
}


# The cases.

SEARCH = """
[space]
depth = 8
dimensions.width = 16
dimensions.head_size = 4

[evaluation]
language.context_length = 16
training.budget.tokens = 512
training.batch_size = 4
validation_tokens = 256

[study]
population = 4
generations = 2
confirmations = 1

[execution]
executor = "serial"
"""

TRAINING = """
[evaluation]
training.budget = {steps = 6}
training.batch_size = 8
validation_samples = 32
test_samples = 32
curve_points = 2
curve_samples = 16
trace_samples = 8
seconds = 600.0

[execution]
executor = "serial"
"""

ZOO = """
[zoo]
width = 16
extractor.blocks = 0
modules = "mlp,squeeze_excite,lstm"

[evaluation]
training.budget = {steps = 12}
training.batch_size = 8
validation_samples = 32
test_samples = 32
curve_points = 2
curve_samples = 16
exchange = false
seconds = 600.0

[execution]
executor = "serial"
"""

GROWN = """
[zoo]
width = 16
extractor.blocks = 0
modules = "mlp,squeeze_excite"

[grow]
events.count = 2
events.first = 0.25
events.last = 0.625
events.warm = 0.125
events.horizon = 0.125
events.looks = 0
fitness.samples = 16
prune.distil_steps = 1
prune.age = 0
prune.least = 1
prune.patience = 1

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
cycle = {samples = 3, generation_size = 2}
training = {validations = 2, most_between = 64, device = "cpu"}
root.structure = {width = 16, heads = 2, hidden = 32}
root.hyperparameters.num_layers = {values = [0, 1, 2], default = 1}
root.hyperparameters.ds_image_size = {values = [8, 16], default = 8}
# The papers' rate, which the reference has.
root.hyperparameters.opt_lr.default = 0.02
root.hyperparameters.opt_lr.values = [0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5]
"""


def as_before(side: Side, former: Mapping[str, tuple[str, Mapping[str, str]]]) -> None:
    """Set what the reference commit has as the only way, with no setting to choose it, where a tree can.

    Args:
        side: a run in a tree.
        former: section of the configuration -> (file of the settings, key -> value as TOML).
    """
    config = side.folder / "config.toml"
    given = config.read_text(encoding="utf-8")
    for section, (file, values) in former.items():
        path = side.tree / "src" / "evodevo" / file
        source = path.read_text(encoding="utf-8") if path.exists() else ""
        lines = [f"{name} = {value}\n" for name, value in values.items() if f"    {name.split('.')[-1]}: " in source]
        given = given.replace(f"[{section}]\n", "".join([f"[{section}]\n", *lines]))
    config.write_text(given, encoding="utf-8")


def search(side: Side) -> None:
    """A search of two generations for backbones, its front, one generation more, and a text from the best."""
    text = side.folder / "text"
    text.mkdir()
    for number in range(40):
        lines = [f"def function_{number}_{line}(value):\n    return value * {line}\n" for line in range(12)]
        (text / f"file_{number}.txt").write_text("".join(lines), encoding="utf-8")
    as_before(
        side,
        {
            "space": (
                "backbone/space_settings.py",
                {"operators": '"paper"', "designs": '["hybrid"]', "distance": '"integers"'},
            ),
            "evaluation": ("tasks/text/language.py", {"language.split": '"legacy"'}),
        },
    )
    side.run("evolve", "backbone.demo", "--config", "config.toml", "--data", "text", "--seed", "3")
    for command in ("status", "front", "pick", "show"):
        side.look(command, "last")
    born = side.ids("operation <> 'baseline'")
    for one in born:
        side.look("show", one, name="show individual")
        side.look("lineage", one, name="lineage")
    side.look("diff", born[0], born[-1], name="diff")
    side.look("generate", born[0], "--prompt", "def ", "--tokens", "12", "--seed", "1", name="generate")
    side.run("resume", "last", "--generations", "3")
    side.look("status", "last")
    side.look("show", "nobody", name="refusals")
    side.look("evolve", "backbone.demo", "--set", "nothing=1", name="refusals")
    side.look("front", "--store", "nowhere", name="refusals")
    side.dump()


def experiment(side: Side, recipe: str) -> None:
    """A comparison of trainings, and its table."""
    side.run("train", recipe, "--config", "config.toml")
    side.look("status", "last")
    side.look("show", "last")
    for one in side.ids():
        side.look("show", one, name="show individual")
    side.dump()


def h_model(side: Side) -> None:
    """An H-Model, a transformer and a control on the pointer task, and a trace."""
    experiment(side, "h_model.pointer")
    side.look("trace", side.ids()[0], name="trace")


def zoo(side: Side) -> None:
    """A zoo of modules and its opponents."""
    experiment(side, "module_zoo.classifier")


def grown(side: Side) -> None:
    """A zoo that grows under three strategists, its logs, and their replays."""
    former = {
        "allow": '["prune", "grow", "spawn", "hybridise", "rewarm"]',
        "prune.rule": '"standard"',
        "events.warm_rate": "0.1",
        "birth.entry": '"gate"',
        "fitness.price": '"parameters"',
        "reward.price": '"start"',
        "race.otherwise": '"all"',
    }
    as_before(side, {"grow": ("growth/spec.py", former)})
    side.run("grow", "module_zoo.classifier", "--config", "config.toml", "--strategist", "ppo")
    side.look("show", "last")
    for one in side.ids():
        side.look("show", one, name="show individual")
        side.look("replay", one, name="replay")
    side.dump()


def system(side: Side) -> None:
    """A system of two tasks with agents of one path and of combined paths."""
    side.run("extend", "create", "zoo", "--class", "VitTiny", "--config", "config.toml", "--seed", "2")
    side.run("extend", "add", "zoo", "digits", "--multi")
    side.run("extend", "add", "zoo", "digits_parity", "--question", "parity")
    side.run("extend", "run", "zoo", "--agents", "single,multi", "--test")
    side.look("extend", "status", "zoo")
    for task in ("digits", "digits_parity"):
        side.look("extend", "status", "zoo", "--task", task, "--children")
    side.look("extend", "graph", "zoo")
    side.look("extend", "run", "nothing", name="refusals")
    side.dump()


# A forecast takes as many steps as the time allows, and what torch draws afterwards without a seed differs: in networks
# with dropout the norms of gradients, in a mixture with noise the FLOPs of a step.
DRAWN = frozenset({"gradient_norms"})
NOISY = frozenset({"gradient_norms", "training_flops", "series flops"})

CASES: dict[str, tuple[Case, str, frozenset[str]]] = {
    "search": (search, SEARCH, frozenset()),
    "h_model": (h_model, TRAINING, frozenset()),
    "zoo": (zoo, ZOO, NOISY),
    "grown": (grown, GROWN, DRAWN),
    "system": (system, SYSTEM, frozenset()),
}


def record(tree: Path, names: Sequence[str], *, brief: bool = False) -> dict[str, Record]:
    """Run cases in a tree.

    Args:
        tree: a checkout of the repository.
        names: of cases.
        brief: commands that only read are left out.

    Returns:
        For each case what is compared; of one that could not run to its end, what there was and ``ended early``.
    """
    records: dict[str, Record] = {}
    with tempfile.TemporaryDirectory(prefix="evodevo-golden-") as folder:
        for name in names:
            run_case, config, unequal = CASES[name]
            place = Path(folder).resolve() / name
            place.mkdir()
            (place / "config.toml").write_text(config, encoding="utf-8")
            side = Side(tree, place, name, Path(folder) / "cache", unequal, brief)
            try:
                run_case(side)
                side.record["ended early"] = None
            except Exception:  # whatever stops a case is a difference to the other side
                side.record["ended early"] = traceback.format_exc(limit=-1).strip().splitlines()[-1]
            finally:
                side.end()
            # Through JSON and back, so that a record from a file and a fresh one are alike.
            records[name] = json.loads(json.dumps(side.record))
    return records


def portable(record: Record) -> Record:
    """What of a case's record holds on every processor: genomes, hashes, draws, edges and logs of edits.

    Floats keep six digits, and those that follow from what a training computed are left out.
    """
    kept = {name: _without(record[name], {"digest", "bar"}) for name in PORTABLE if name in record}
    logs = [
        _without(blob, {"digest", "weights", "note"}) for _, role, blob in record["blobs' contents"] if role == "edits"
    ]
    return {**kept, "edits": by_content(logs)} if logs else kept


def by_content(logs: Sequence[Any]) -> list[Any]:
    """Logs of edits in an order of their own: that of their evaluations' ids changes with every setting of a run."""
    return sorted(logs, key=lambda log: json.dumps(log, sort_keys=True))


PORTABLE = (
    "genomes",
    "draws",
    "edges",
    "paths",
    "components",
    "uses of components",
    "paths inside paths",
    "publications",
)


def _without(value: Any, keys: set[str]) -> Any:
    if isinstance(value, dict):
        return {key: _without(one, keys) for key, one in value.items() if key not in keys}
    if isinstance(value, list):
        return [_without(one, keys) for one in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value


def difference(left: Any, right: Any, place: str = "") -> str | None:
    """The first difference between two JSON values, None where they are equal bit for bit."""
    if type(left) is not type(right):
        return f"{place or 'value'}: {_short(left)} | {_short(right)}"
    if isinstance(left, dict):
        for key in [*left, *(key for key in right if key not in left)]:
            where = f"{place}.{key}" if place else key
            if key not in left or key not in right:
                return f"{where}: {'here' if key in right else 'in the reference'} only"
            if found := difference(left[key], right[key], where):
                return found
        return None
    if isinstance(left, list):
        for number, (one, other) in enumerate(zip(left, right, strict=False)):
            if found := difference(one, other, f"{place}[{number}]"):
                return found
        return None if len(left) == len(right) else f"{place or 'value'}: {len(left)} | {len(right)} entries"
    # The text of a float tells all its bits, the sign of zero and NaN included.
    return None if json.dumps(left) == json.dumps(right) else f"{place or 'value'}: {_short(left)} | {_short(right)}"


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 90 else text[:87] + "..."


def compare(reference: dict[str, Record], here: dict[str, Record]) -> Iterator[tuple[str, str, str | None]]:
    """Every comparison: case, what is compared, and the first difference or None."""
    for case in reference:
        names = [*reference[case], *(name for name in here[case] if name not in reference[case])]
        for name in names:
            if name not in reference[case] or name not in here[case]:
                yield case, name, f"{'here' if name in here[case] else 'in the reference'} only"
            else:
                yield case, name, difference(reference[case][name], here[case][name])


@contextlib.contextmanager
def checkout(reference: str) -> Iterator[Path]:
    """A folder with the reference: itself where it is one, else a working tree of that commit, removed afterwards."""
    if Path(reference).is_dir():
        yield Path(reference).resolve()
        return
    folder = Path(tempfile.mkdtemp(prefix="evodevo-golden-"))
    git = ["git", "-C", str(HERE), "worktree"]
    try:
        tree = folder / "tree"
        subprocess.run([*git, "add", "--quiet", "--detach", str(tree), reference], check=True)
        try:
            yield tree
        finally:
            subprocess.run([*git, "remove", "--force", str(tree)], check=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def machine() -> dict[str, str]:
    """What floats may depend on beside the code: a record is compared on the machine that made it."""
    import numpy
    import torch

    return {
        "processor": platform.processor() or platform.machine(),
        "capability": torch.backends.cpu.get_cpu_capability(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": numpy.__version__,
    }


def main() -> int:
    """Run, compare, print; gives the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--reference", default=REFERENCE, help="a commit, or a folder with a checkout [%(default)s]")
    parser.add_argument("--only", default=",".join(CASES), metavar="CASE,...", help="these cases [%(default)s]")
    parser.add_argument(
        "--except",
        dest="excepted",
        action="append",
        default=[],
        metavar="PATTERN",
        help="'CASE: COMPARISON' that may differ, with * and ?; told as 'differs as expected', and repeatable",
    )
    parser.add_argument("--keep", type=Path, metavar="FILE", help="write what the reference recorded")
    parser.add_argument("--portable", type=Path, metavar="DIR", help="write what no processor decides, CASE.json.xz")
    parser.add_argument("--recorded", type=Path, metavar="FILE", help="take the reference from such a file")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all comparisons")
    given = parser.parse_args()
    names = [name for name in given.only.split(",") if name]
    if unknown := [name for name in names if name not in CASES]:
        parser.error(f"unknown case {unknown[0]!r}; the cases are {', '.join(CASES)}")
    began = time.monotonic()
    if given.recorded is not None:
        kept = json.loads(given.recorded.read_text(encoding="utf-8"))
        if (kept["format"], kept["machine"]) != (FORMAT, machine()):
            print(f"{given.recorded} was made by {kept['machine']}, this is {machine()}", file=sys.stderr)
            return 2
        reference = {name: kept["cases"][name] for name in names}
    else:
        with checkout(given.reference) as tree:
            reference = record(tree, names)
    if given.keep is not None:
        kept = {"format": FORMAT, "machine": machine(), "reference": given.reference, "cases": reference}
        given.keep.write_text(json.dumps(kept), encoding="utf-8")
    if given.portable is not None:
        for name, one in reference.items():
            text = json.dumps(portable(one), indent=1)
            (given.portable / f"{name}.json.xz").write_bytes(lzma.compress(text.encode(), preset=9))
    if early := [f"{name}: {one['ended early']}" for name, one in reference.items() if one["ended early"]]:
        print("\n".join(["the reference itself could not run:", *early]), file=sys.stderr)
        return 2
    lines, differing = [], 0
    for case, name, found in compare(reference, record(HERE, names)):
        expected = found is not None and any(fnmatch.fnmatch(f"{case}: {name}", one) for one in given.excepted)
        differing += found is not None and not expected
        said = "equal" if found is None else f"{'differs as expected' if expected else 'DIFFERS'}: {found}"
        print(f"{case}: {name}: {said}", flush=True)
        lines.append({"case": case, "comparison": name, "difference": found, "expected": expected})
    seconds = time.monotonic() - began
    print(f"{len(lines)} comparisons, {differing} differ, {seconds:.0f} s", file=sys.stderr)
    if given.json is not None:
        report = {"reference": given.reference, "machine": machine(), "differing": differing, "comparisons": lines}
        given.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())

"""The structure of the source in numbers: size, arrows between files, tables, and how many files an act goes through.

Run: python benchmarks/house.py [--tree DIR] [--static] [--minutes M] [--verbose] [--json PATH]

``--tree`` is any checkout of evodevo, also an older one; without it, the checkout of this script. The script shares no
list with the checkouts: floors are those of ``tests/test_house.py`` there, and a file is known by its path alone.

- *Files and lines*: ``src/evodevo/**/*.py`` and ``tests/**/*.py``, every line counted.
- *Largest folder*: ``*.py`` that lie in one folder itself, ``__init__.py`` included.
- *Imports upward*: pairs (file, imported file) of which the second lies on the same floor in another room, or higher.
  Files of the first floor stand in its order. Imports in functions and for type checkers count; the package's own
  ``__init__`` is exempt; names in strings are left to ``tests/test_house.py``.
- *Circles*: sets of more than one file that all import one another, directly or through others (strongly connected
  components). The same imports count.
- *Tables*: registries, which are calls of ``table`` or ``Registry`` of ``evodevo.registry`` outside that file. The
  second number counts dictionaries of a module that serve as a closed table: text -> function or class, at least two
  rows.
- *Files to the loss*, *files of a child*: distinct files of which a function is called, as ``sys.setprofile`` reports;
  bodies of modules and classes, what runs while a module is imported, and generated code without a file (methods of
  data classes) do not count. The first is of a tiny ``evolve backbone.demo``, from the fork of the evaluation's process
  to the first ``backward``, in the evaluation that needs most. The second is of a tiny ``extend run`` with one trained
  child: the command's process, whole, and the child's. ``cli/`` and ``storage/`` are left out of its first number and
  counted in the second. Both need a system where workers are forked (Linux), about 2 minutes, and no network.
- *Files to touch* for a kind: the files whose code names one that exists (``EXAMPLES``): one of its identifiers, or its
  key as a text. Where other things have the same key, the text counts only in files that also name enough of its
  companions, such as other keys of the same table. Docstrings and comments do not count, nor recipes and
  ``evodevo.testing``, which use kinds. This shows where a kind is known, which is at least where one is added, and
  more where a file merely prefers it.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Any

HERE = Path(__file__).resolve().parent
PACKAGE = "evodevo"
REGISTRY = "registry.py"
USERS = {"recipes", "testing"}
"""Folders whose files use kinds by name and need no change for a new one."""
AROUND = ("cli/", "storage/")
"""Left out of the first number of a child's files: around every command, and the same for all."""

EVOLVE = (
    *("evolve", "backbone.demo", "--population", "2", "--generations", "1", "--tokens", "2k", "--workers", "1"),
    *("--device", "cpu", "--set", "study.confirmations=0", "--set", "evaluation.validation_tokens=2048"),
)
CREATE = ("extend", "create", "house", "--class", "VitTiny", "--config", "tiny.toml")
ADD = ("extend", "add", "house", "digits")
EXTEND = ("extend", "run", "house", "--cycles", "1", "--workers", "1")
TINY = """
cycle = {samples = 1, generation_size = 1}
training = {validations = 2, most_between = 200, device = "cpu"}
root.structure = {width = 16, heads = 2, hidden = 32}
root.hyperparameters.num_layers = {values = [0, 1, 2], default = 1}
root.hyperparameters.ds_image_size = {values = [8, 16], default = 8}
"""


@dataclass(frozen=True)
class Example:
    """A kind that exists, by the names under which code knows it.

    Attributes:
        identifiers: names of its classes and functions.
        key: its name in files and settings.
        companions: names and texts of which a file must hold ``needed`` for its text ``key`` to mean this kind.
        needed: 0 where nothing else has this key.
    """

    identifiers: tuple[str, ...]
    key: str
    companions: tuple[str, ...] = ()
    needed: int = 0


EXAMPLES: Mapping[str, Example] = {
    "a layer kind": Example(
        ("ConvolutionLayer", "LocalConvolution"), "convolution", ("transformer", "mlp", "lstm", "pretrained"), 2
    ),
    "a zoo node": Example(
        ("SqueezeExciteNode", "SqueezeExcite"),
        "squeeze_excite",
        ("feed_forward", "projection", "norm", "gate", "layer"),
        2,
    ),
    "an objective on answers": Example(("CALIBRATION_ERROR",), "calibration_error"),
    "an aggregation of the H-Model": Example(("AttentionAggregation",), "attention", ("aggregation",), 1),
}


@dataclass(frozen=True)
class Row:
    """One line of the table, and what stands behind its value."""

    measure: str
    value: str
    goal: str
    details: Mapping[str, Any] = field(default_factory=dict)


class Source:
    """The files of one package.

    Args:
        root: the folder of the package; its name is the package's.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.texts = {
            PurePosixPath(path.relative_to(root).as_posix()): path.read_text(encoding="utf-8")
            for path in sorted(root.rglob("*.py"))
        }
        self.trees = {path: ast.parse(text, str(path)) for path, text in self.texts.items()}
        self._modules = {self._module(path): path for path in self.texts}

    def imports(self) -> dict[PurePosixPath, list[PurePosixPath]]:
        """File -> files of the package that it imports, sorted; without the package's own ``__init__``."""
        own = PurePosixPath("__init__.py")
        return {
            path: sorted(set(self._imported(path, tree)) - {path, own})
            for path, tree in self.trees.items()
            if path != own
        }

    def _module(self, path: PurePosixPath) -> str:
        parts = path.parent.parts if path.name == "__init__.py" else path.with_suffix("").parts
        return ".".join((self.root.name, *parts))

    def _imported(self, path: PurePosixPath, tree: ast.Module) -> Iterator[PurePosixPath]:
        folder = (self.root.name, *path.parent.parts)
        for node in ast.walk(tree):
            names: list[tuple[str, ...]]
            if isinstance(node, ast.Import):
                names = [(alias.name,) for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                base = folder[: len(folder) - node.level + 1] if node.level else ()
                module = ".".join((*base, *([node.module] if node.module else [])))
                # A name is a file of its own, or what the file that is named before it holds.
                names = [(f"{module}.{alias.name}", module) for alias in node.names]
            else:
                continue
            for choices in names:
                found = next((self._modules[name] for name in choices if name in self._modules), None)
                if found is not None:
                    yield found


def circles(arrows: Mapping[Any, Iterable[Any]]) -> list[list[Any]]:
    """The sets of more than one node that reach one another, each sorted (Tarjan's algorithm, without recursion)."""
    number: dict[Any, int] = {}
    low: dict[Any, int] = {}
    stack: list[Any] = []
    stacked: set[Any] = set()
    result = []
    for start in arrows:
        if start in number:
            continue
        walk = [(start, iter(arrows[start]))]
        number[start] = low[start] = len(number)
        stack.append(start)
        stacked.add(start)
        while walk:
            node, targets = walk[-1]
            following = next((target for target in targets if target not in number or target in stacked), None)
            if following is None:
                walk.pop()
                if walk:
                    low[walk[-1][0]] = min(low[walk[-1][0]], low[node])
                if low[node] == number[node]:
                    circle = stack[stack.index(node) :]
                    del stack[-len(circle) :]
                    stacked.difference_update(circle)
                    if len(circle) > 1:
                        result.append(sorted(circle))
            elif following in number:
                low[node] = min(low[node], number[following])
            else:
                number[following] = low[following] = len(number)
                stack.append(following)
                stacked.add(following)
                walk.append((following, iter(arrows.get(following, ()))))
    return sorted(result)


def floors(test: str) -> list[list[str]]:
    """``FLOORS`` of the text of a ``test_house.py``: rooms from the ground up, a room being a folder or a file.

    Raises:
        ValueError: it has no ``FLOORS`` made of plain values and names of such.
    """
    values = _constants(test)
    if "FLOORS" not in values:
        raise ValueError("tests/test_house.py has no FLOORS that can be read without running it")
    return [list(floor) for floor in values["FLOORS"]]


def same_rooms(test: str) -> dict[str, str]:
    """``SAME_ROOM`` of such a text, where it has one: files that belong to a folder's room."""
    return dict(_constants(test).get("SAME_ROOM", {}))


def _constants(test: str) -> dict[str, Any]:
    """Values that a module gives to names at its top, where they are plain ones."""
    values: dict[str, Any] = {}
    for node in ast.parse(test).body:
        target: ast.expr
        value: ast.expr | None
        if isinstance(node, ast.AnnAssign):
            target, value = node.target, node.value
        elif isinstance(node, ast.Assign) and len(node.targets) == 1:
            target, value = node.targets[0], node.value
        else:
            continue
        if isinstance(target, ast.Name) and value is not None:
            try:
                values[target.id] = _constant(value, values)
            except ValueError:
                continue
    return values


def _constant(node: ast.expr, values: Mapping[str, Any]) -> Any:
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name) and node.id in values:
        return values[node.id]
    if isinstance(node, ast.Dict) and None not in node.keys:
        keys = [key for key in node.keys if key is not None]
        return {_constant(key, values): _constant(value, values) for key, value in zip(keys, node.values, strict=True)}
    if isinstance(node, ast.Tuple | ast.List):
        items: list[Any] = []
        for item in node.elts:
            if isinstance(item, ast.Starred):
                items.extend(_constant(item.value, values))
            else:
                items.append(_constant(item, values))
        return items
    raise ValueError(ast.unparse(node))


def upward(
    arrows: Mapping[PurePosixPath, Iterable[PurePosixPath]],
    floors: Sequence[Sequence[str]],
    same_rooms: Mapping[str, str] = MappingProxyType({}),
) -> list[tuple[PurePosixPath, PurePosixPath]]:
    """(file, imported file) of each arrow that does not point down, and of each from or to a file without a floor.

    Args:
        arrows: File to the files that it imports.
        floors: Rooms from the ground up.
        same_rooms: File without its ending to the room that it belongs to.
    """
    # (floor, place on it) of a room; places count on the ground floor alone.
    levels = {room: (0, place) for place, room in enumerate(floors[0])}
    levels |= {room: (number, 0) for number, rooms in enumerate(floors[1:], 1) for room in rooms}

    def room(path: PurePosixPath) -> str:
        candidates = (path.with_suffix(""), *path.parents)
        if str(candidates[0]) in same_rooms:
            return same_rooms[str(candidates[0])]
        return next((str(candidate) for candidate in candidates if str(candidate) in levels), "")

    wrong = []
    for path, targets in arrows.items():
        source = room(path)
        for target in targets:
            aim = room(target)
            if not source or not aim or (source != aim and levels[aim] >= levels[source]):
                wrong.append((path, target))
    return wrong


def largest_folder(paths: Iterable[PurePosixPath]) -> tuple[str, int]:
    """The folder that holds most of these files itself, and how many; the first in the alphabet of several."""
    counts = Counter(str(path.parent) for path in paths)
    return min(counts.items(), key=lambda pair: (-pair[1], pair[0]))


def registries(source: Source) -> list[str]:
    """``file: NAME`` of each call of ``table`` or ``Registry`` that comes from the package's registry."""
    result = []
    for path, tree in source.trees.items():
        if str(path) == REGISTRY:
            continue
        makers = {
            alias.asname or alias.name
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[-1] == Path(REGISTRY).stem
            for alias in node.names
            if alias.name in ("table", "Registry")
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                maker = node.func.value if isinstance(node.func, ast.Subscript) else node.func
                if isinstance(maker, ast.Name) and maker.id in makers:
                    result.append(f"{path}: {ast.unparse(node)}")
    return result


def dictionaries(source: Source) -> list[str]:
    """``file: NAME`` of each dictionary of a module that gives functions or classes for texts, in two rows or more."""
    result = []
    for path, tree in source.trees.items():
        callables = {
            node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        }
        callables |= {
            alias.asname or alias.name
            for node in tree.body
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
            if not alias.name.isupper()
        }
        for node in tree.body:
            if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Dict):
                keys, values = node.value.keys, node.value.values
                named = all(isinstance(key, ast.Constant) and isinstance(key.value, str) for key in keys)
                if len(keys) > 1 and named and all(_is_callable(value, callables) for value in values):
                    target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
                    result.append(f"{path}: {ast.unparse(target)}")
    return result


def _is_callable(node: ast.expr, callables: set[str]) -> bool:
    if isinstance(node, ast.Attribute):  # F.relu, Stack.of
        return True
    return isinstance(node, ast.Lambda) or (isinstance(node, ast.Name) and node.id in callables)


def known_in(source: Source, example: Example) -> list[str]:
    """The files whose code names an example; the module's docstring has the rule."""
    result = []
    for path, tree in source.trees.items():
        if USERS & set(path.parts) or not any(
            name in source.texts[path] for name in (*example.identifiers, example.key)
        ):
            continue
        identifiers, texts = _names(tree)
        companions = (identifiers | texts) & set(example.companions)
        if identifiers & set(example.identifiers) or (example.key in texts and len(companions) >= example.needed):
            result.append(str(path))
    return result


def _names(tree: ast.Module) -> tuple[set[str], set[str]]:
    """Identifiers and texts of a file's code."""
    identifiers: set[str] = set()
    texts: set[str] = set()
    loose: set[int] = set()  # docstrings: texts that are statements
    for node in ast.walk(tree):
        match node:
            case ast.Expr(value=ast.Constant() as constant):
                loose.add(id(constant))
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name):
                identifiers.add(name)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                identifiers.add(name)
            case ast.keyword(arg=str(name)):
                identifiers.add(name)
            case ast.alias(name=name, asname=other):
                identifiers.update({name.split(".")[-1], other or name.split(".")[-1]})
            case ast.Constant(value=str(text)) if id(node) not in loose:
                texts.add(text)
                # "room.file:Name" of a lazy row names what it loads.
                if ":" in text and text.split(":")[-1].isidentifier():
                    identifiers.add(text.split(":")[-1])
    return identifiers, texts


def traced(tree: Path, command: Sequence[str], folder: Path, *, until_loss: bool) -> tuple[list[str], list[list[str]]]:
    """What worked in a command of a checkout.

    Args:
        tree: the checkout.
        command: words after ``evodevo``.
        folder: where it runs, with its store and caches.
        until_loss: an evaluation is followed to its first loss only.

    Returns:
        Files of the command's own process; for each process that trained its files in the order of their first calls,
        with ``loss`` between those before the first loss and those after it. Paths are relative to the package.

    Raises:
        RuntimeError: the command failed.
    """
    lists = folder / f"lists_{len(list(folder.iterdir()))}"
    lists.mkdir()
    begun = _start(
        tree,
        command,
        folder,
        trace={
            "PYTHONPATH": os.pathsep.join((str(tree / "src"), str(HERE / "house_trace"))),
            "EVODEVO_HOUSE_SOURCE": str(tree / "src" / PACKAGE),
            "EVODEVO_HOUSE_LISTS": str(lists),
            "EVODEVO_HOUSE_UNTIL": "loss" if until_loss else "end",
        },
    )
    everything = {path.name: path.read_text(encoding="utf-8").splitlines() for path in lists.iterdir()}
    own = everything.get(f"{os.getpid()}-{begun}", [])
    return [line for line in own if line != "loss"], [lines for lines in everything.values() if "loss" in lines]


def _start(tree: Path, command: Sequence[str], folder: Path, trace: Mapping[str, str] | None = None) -> int:
    """Run a command of a checkout to its end; gives the id of its process."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(tree / "src"),
        "XDG_CACHE_HOME": str(folder / "cache"),
        "OMP_NUM_THREADS": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        **(trace or {}),
    }
    words = [sys.executable, "-m", f"{PACKAGE}.cli", *command, "--store", "runs"]
    with subprocess.Popen(
        words, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        output, _ = process.communicate()
    if process.returncode:
        raise RuntimeError(f"evodevo {' '.join(command)} ended with {process.returncode}:\n{output}")
    return process.pid


def files_to_loss(tree: Path) -> list[str]:
    """Files of the evaluation of ``backbone.demo`` that needs most of them, from its process's begin to its first loss.

    Raises:
        RuntimeError: the command failed, or nothing was trained.
    """
    with tempfile.TemporaryDirectory() as name:
        _, trained = traced(tree, EVOLVE, Path(name), until_loss=True)
    if not trained:
        raise RuntimeError("no process of evolve came to a loss")
    return max((lines[: lines.index("loss")] for lines in trained), key=len)


def files_of_child(tree: Path) -> tuple[list[str], list[str]]:
    """Files of ``extend run`` with one trained child: those of the command's process, and those of the child's.

    Raises:
        RuntimeError: a command failed, or nothing was trained.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "tiny.toml").write_text(TINY, encoding="utf-8")
        _start(tree, CREATE, folder)
        _start(tree, ADD, folder)
        own, trained = traced(tree, EXTEND, folder, until_loss=False)
    if not trained:
        raise RuntimeError("no process of extend run came to a loss")
    child = max(trained, key=len)
    return own, [line for line in child if line != "loss"]


def static_rows(tree: Path) -> list[Row]:
    """What can be counted without running anything."""
    source = Source(tree / "src" / PACKAGE)
    lines = sum(len(text.splitlines()) for text in source.texts.values())
    arrows = source.imports()
    test = (tree / "tests" / "test_house.py").read_text(encoding="utf-8")
    wrong = upward(arrows, floors(test), same_rooms(test))
    round_trips = circles(arrows)
    folder, count = largest_folder(source.texts)
    tables, closed = registries(source), dictionaries(source)
    return [
        Row("files / lines of source", f"{len(source.texts)} / {lines:,}", "≤ 600 / ≤ 85,000"),
        Row("files in the largest folder", str(count), "≤ 30", {"folder": folder}),
        Row(
            "imports upward, circles",
            f"{len(wrong)}, {len(round_trips)}",
            "0, 0",
            {
                "upward": [f"{path} -> {target}" for path, target in wrong],
                "circles": [", ".join(map(str, circle)) for circle in round_trips],
            },
        ),
        Row(
            "tables (closed dictionaries beside them)",
            f"{len(tables)} ({len(closed)})",
            "≤ 16",
            {"registries": tables, "dictionaries": closed},
        ),
    ]


def test_row(tree: Path, minutes: float | None) -> Row:
    """Lines of the tests, and the minutes that somebody measured."""
    lines = sum(len(path.read_text(encoding="utf-8").splitlines()) for path in (tree / "tests").rglob("*.py"))
    told = "not measured" if minutes is None else f"{minutes:g}"
    return Row("lines of tests, minutes", f"{lines:,}, {told}", "≤ 48,000, < 10")


def traced_rows(tree: Path) -> list[Row]:
    """What shows when two small commands run."""
    to_loss = files_to_loss(tree)
    own, child = files_of_child(tree)
    both = sorted({*own, *child})
    inner = [path for path in both if not path.startswith(AROUND)]
    return [
        Row(
            "files between a study's submit and the loss of a step, in the worker",
            str(len(to_loss)),
            "≤ 28",
            {"in the order of their first calls": to_loss},
        ),
        Row(
            "files of one child of `extend run`, without cli/ and storage/ (with them; in its worker alone)",
            f"{len(inner)} ({len(both)}; {len(child)})",
            "≤ 42",
            {"without cli/ and storage/": inner, "of the command": own, "of the worker": child},
        ),
    ]


def touch_row(tree: Path) -> Row:
    """Where the code knows each of the examples."""
    source = Source(tree / "src" / PACKAGE)
    known = {what: known_in(source, example) for what, example in EXAMPLES.items()}
    return Row(
        "source files to touch: " + " / ".join(EXAMPLES),
        " / ".join(str(len(files)) if files else "its names are gone" for files in known.values()),
        "1 (with its `_model` file where it has modules) and its row, each",
        {f"{what} ({EXAMPLES[what].key})": files for what, files in known.items()},
    )


def commit(tree: Path) -> str:
    """The commit of a checkout with ``+`` where files differ from it, or nothing where it is none."""
    words = ("git", "-C", str(tree), "describe", "--always", "--dirty=+", "--exclude=*")
    return subprocess.run(words, capture_output=True, text=True).stdout.strip()


def main() -> None:
    """Measure and print."""
    assert __doc__ is not None
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tree", type=Path, default=HERE.parent, help="a checkout of evodevo")
    parser.add_argument("--static", action="store_true", help="run nothing: without the two traced rows")
    parser.add_argument("--minutes", type=float, help="of the pytest part of make test, as measured on 2 idle cores")
    parser.add_argument("--verbose", action="store_true", help="also what stands behind the numbers")
    parser.add_argument("--json", type=Path, help="write rows and what stands behind them")
    options = parser.parse_args()
    tree = options.tree.resolve()
    if not (tree / "src" / PACKAGE).is_dir():
        parser.error(f"{options.tree} is no checkout of evodevo: it has no folder src/{PACKAGE}")
    rows = [*static_rows(tree), test_row(tree, options.minutes)]
    rows += [] if options.static else traced_rows(tree)
    rows.append(touch_row(tree))
    name = commit(tree)
    print(f"# The house at {name or tree.name}\n\n| measure | value | goal |\n|---|---|---|")
    for row in rows:
        print(f"| {row.measure} | {row.value} | {row.goal} |")
    if options.verbose:
        for row in rows:
            for what, details in row.details.items():
                lines = [details] if isinstance(details, str) else details
                print(f"\n{row.measure}: {what}", *(f"  {line}" for line in lines), sep="\n")
    if options.json is not None:
        measured = [
            {"measure": row.measure, "value": row.value, "goal": row.goal, "details": dict(row.details)} for row in rows
        ]
        text = json.dumps({"commit": name, "rows": measured}, indent=2, ensure_ascii=False)
        options.json.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

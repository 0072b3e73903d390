"""The arrows of the house (docs/concepts.md): a file imports from its own folder and from lower floors only.

A room is a folder in the package's root, or a file there. Imports inside functions and for type checkers count, and so
do entry points written as strings (``"evodevo.a.b:c"``); only the package's lazy ``__init__`` is exempt.
"""

from __future__ import annotations

import ast
import functools
import re
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1] / "src" / "evodevo"

# The ground floor lies in this order: each file stands on those before it.
GROUND = ("errors", "randomness", "canonical", "files", "scratch", "registry", "settings")
FLOORS: tuple[tuple[str, ...], ...] = (
    GROUND,
    ("storage", "execution"),
    ("tasks", "objectives", "report"),
    ("operators", "training"),
    ("search",),
    ("networks", "export"),
    ("runs",),
    ("experiments",),
    ("backbone",),
    ("h_model",),
    ("module_zoo",),
    ("growth",),
    ("multitask",),
    ("estimators", "dashboard", "hf"),
    ("cli", "testing"),
)
SAME_ROOM = {"worker": "execution"}
"""Files in the package's root that belong to a folder."""
TORCH = frozenset({"torch", "safetensors", "transformers", "entmax"})
TORCH_FREE = frozenset({*GROUND, "storage", "execution", "tasks", "search", "report"})
"""Rooms in which no file loads torch."""
TORCH_FREE_NAMES = frozenset({"genome", "space", "cost", "spec", "settings", "draw", "slice", "rows"})
TORCH_FREE_ENDINGS = ("_layer", "_spec", "_settings")
TORCH_FREE_FOLDERS = frozenset({"recipes", "diagrams", "layers", "aggregations", "variation"})
"""Names of files and of folders that load no torch in any room."""
TORCH_ENDINGS = ("build", "module", "_model")
"""Of files in such a folder that hold modules all the same."""
# Strings that name code are for tables only.
TABLE_FILES = frozenset(
    {
        "__init__.py",
        "execution/base.py",
        "experiments/procedures.py",
        "export/base.py",
        "export/models/base.py",
        "growth/growable.py",
        "growth/around/base.py",
        "growth/in_place/base.py",
        "growth/strategists/base.py",
        "module_zoo/modules/families.py",
        "module_zoo/modules/nodes/base.py",
        "h_model/aggregations/base.py",
        "multitask/agent.py",
        "multitask/paths/kinds.py",
        "networks/spec.py",
        "objectives/base.py",
        "operators/layers/base.py",
        "runs/slices.py",
        "search/base.py",
        "tasks/base.py",
    }
)
MOST_FILES = 30
"""Python files of one level in a folder."""
ENTRY = re.compile(r"evodevo(\.\w+)+:\w+")

FLOOR = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}


def module_of(path: Path) -> str:
    """Dotted name of a file; ``path`` is relative to the package."""
    return ".".join(("evodevo", *path.with_suffix("").parts)).removesuffix(".__init__")


FILES = sorted(path.relative_to(ROOT) for path in ROOT.rglob("*.py"))
MODULES = {module_of(path): path for path in FILES}


@functools.cache
def nodes(source: str) -> list[ast.Import | ast.ImportFrom | ast.ClassDef | ast.Constant]:
    """Imports, classes and strings of a file; files are parsed once for all tests."""
    return [
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Import | ast.ImportFrom | ast.ClassDef)
        or (isinstance(node, ast.Constant) and isinstance(node.value, str) and ENTRY.fullmatch(node.value))
    ]


def imported(path: Path, source: str) -> Iterator[tuple[int, str]]:
    """(line, absolute dotted name) of everything that a file imports, wherever in it."""
    package = ["evodevo", *path.parent.parts]
    for node in nodes(source):
        if isinstance(node, ast.Import):
            for name in node.names:
                yield node.lineno, name.name
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            for name in node.names:
                yield node.lineno, f"{module}.{name.name}"


def entry_strings(source: str) -> Iterator[tuple[int, str]]:
    """(line, module) of every string constant that names code of ours."""
    for node in nodes(source):
        if isinstance(node, ast.Constant):
            yield node.lineno, str(node.value).partition(":")[0]


def room_of(path: Path) -> str:
    room = path.parts[0].removesuffix(".py")
    return SAME_ROOM.get(room, room)


def is_torch_free(path: Path) -> bool:
    named = path.stem in TORCH_FREE_NAMES or path.stem.endswith(TORCH_FREE_ENDINGS)
    lies = not TORCH_FREE_FOLDERS.isdisjoint(path.parts[:-1]) and not path.stem.endswith(TORCH_ENDINGS)
    return room_of(path) in TORCH_FREE or named or lies


def wrong_arrows(path: Path, source: str) -> list[str]:
    """What is wrong with the imports of one file; ``path`` is relative to the package."""
    room = room_of(path)
    if room not in FLOOR:
        return [f"{path}: the room {room!r} is on no floor; docs/concepts.md and FLOORS say where each room lies"]
    wrong = []
    for line, name in imported(path, source):
        top, _, rest = name.partition(".")
        if top in TORCH and room in TORCH_FREE:
            wrong.append(f"{path}:{line}: {room} has no torch; it imports {name}")
        if top != "evodevo":
            continue
        target = rest.partition(".")[0]
        target = SAME_ROOM.get(target, target)
        if target in ("__version__", room):
            continue
        if target not in FLOOR:
            wrong.append(f"{path}:{line}: imports {name}: name the room that it lives in, not the package")
        elif target in GROUND and room in GROUND:
            if GROUND.index(target) > GROUND.index(room):
                wrong.append(f"{path}:{line}: {room} stands below {target} on the ground floor")
        elif FLOOR[target] >= FLOOR[room]:
            wrong.append(f"{path}:{line}: {room} (floor {FLOOR[room]}) imports {target} (floor {FLOOR[target]})")
    return wrong


def arrow(path: Path, name: str) -> str:
    """``evodevo.a.b -> evodevo.c.d``: an import, from file to file."""
    while name not in MODULES and "." in name:
        name = name.rpartition(".")[0]
    return f"{module_of(path)} -> {name}"


def arrows_between_files() -> dict[str, set[str]]:
    """File to the files that it imports, by dotted name."""
    found: dict[str, set[str]] = defaultdict(set)
    for path in FILES:
        if path == Path("__init__.py"):
            continue
        for _, name in imported(path, (ROOT / path).read_text(encoding="utf-8")):
            if name.startswith("evodevo."):
                start, _, end = arrow(path, name).partition(" -> ")
                if start != end:
                    found[start].add(end)
    return found


def circles(arrows: Mapping[str, set[str]]) -> list[tuple[str, ...]]:
    """Groups of files that import each other, directly or around a corner."""
    reached: dict[str, set[str]] = {}
    for start in arrows:
        seen: set[str] = set()
        todo = list(arrows[start])
        while todo:
            name = todo.pop()
            if name not in seen:
                seen.add(name)
                todo.extend(arrows.get(name, ()))
        reached[start] = seen
    groups = {
        tuple(sorted(other for other in reached[name] if name in reached.get(other, ()))): None
        for name in reached
        if name in reached[name]
    }
    return sorted(groups)


def test_arrows_point_down() -> None:
    wrong = []
    for path in FILES:
        if path == Path("__init__.py"):
            continue
        source = (ROOT / path).read_text(encoding="utf-8")
        wrong += wrong_arrows(path, source)
        wrong += [
            f"{path}:{line}: names {name} of a higher floor"
            for line, name in entry_strings(source)
            if wrong_arrows(path, f"import {name}")
        ]
    assert not wrong, "\n".join(wrong)


def test_no_files_import_each_other() -> None:
    found = [" <> ".join(circle) for circle in circles(arrows_between_files())]
    assert not found, "\n".join(found)


def test_a_circle_is_found_around_two_corners() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": {"e"}, "e": set()}) == [("a", "b", "c")]
    assert circles({"a": {"b"}, "b": {"c"}, "c": set()}) == []


def test_strings_that_name_code_stand_in_tables_only() -> None:
    found = {
        str(path)
        for path in FILES
        if path.name != "slice.py" and any(entry_strings((ROOT / path).read_text(encoding="utf-8")))
    }
    assert found == TABLE_FILES
    unknown = [
        f"{path}:{line}: {name}"
        for path in FILES
        for line, name in entry_strings((ROOT / path).read_text(encoding="utf-8"))
        if name not in MODULES
    ]
    assert not unknown, "\n".join(unknown)


def test_folders_are_small_and_shared_prefixes_are_folders() -> None:
    wrong = []
    for folder in sorted({path.parent for path in FILES}):
        stems = [path.stem for path in FILES if path.parent == folder]
        if len(stems) > MOST_FILES:
            wrong.append(f"{folder}: {len(stems)} files of one level; at most {MOST_FILES}")
        prefixes = Counter(stem.split("_")[0] for stem in stems if not stem.startswith("_"))
        if "versions" not in folder.parts:
            wrong += [f"{folder}/{name}_*: {n} files share a prefix" for name, n in prefixes.items() if n >= 3]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("storage/database.py", "from evodevo.search.study import Study"),
        ("storage/database.py", "import evodevo.search.study"),
        ("storage/database.py", "def f():\n    from evodevo.search import nsga2"),
        ("storage/database.py", "if TYPE_CHECKING:\n    from evodevo.search import study"),
        ("storage/database.py", "from ..search.study import Study"),
        ("storage/database.py", "from .. import search"),
        ("storage/migrations/env.py", "from ...search.study import Study"),
        ("storage/database.py", "from evodevo.operators import base"),
        ("storage/database.py", "import torch"),
        ("execution/base.py", "from safetensors.torch import save"),
        ("search/algorithms/nsga2.py", "from evodevo.networks.routing import gates"),
        ("h_model/model.py", "from evodevo.module_zoo.model import ModuleZoo"),
        ("networks/spec.py", "from evodevo import Study"),
        ("canonical.py", "from evodevo.settings import Settings"),
        ("helpers.py", "import os"),
        ("utils/text.py", "import os"),
    ],
)
def test_a_wrong_arrow_is_seen(path: str, source: str) -> None:
    assert wrong_arrows(Path(path), source)


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("storage/database.py", "from evodevo.storage.base import Lease"),
        ("storage/database.py", "from .base import Lease"),
        ("storage/migrations/env.py", "from ..schema import metadata"),
        ("storage/database.py", "from evodevo import canonical, errors"),
        ("settings.py", "from evodevo.errors import UsageError"),
        ("cli/failures.py", "from evodevo import __version__"),
        ("networks/spec.py", "import torch\nfrom evodevo.operators import liv"),
    ],
)
def test_a_right_arrow_is_left_alone(path: str, source: str) -> None:
    assert not wrong_arrows(Path(path), source)


def test_a_class_name_has_one_meaning() -> None:
    homes: dict[str, list[str]] = defaultdict(list)
    for path in FILES:
        for node in nodes((ROOT / path).read_text(encoding="utf-8")):
            if isinstance(node, ast.ClassDef):
                homes[node.name].append(f"{path}:{node.lineno}")
    twice = {name: places for name, places in homes.items() if len(places) > 1}
    assert not twice, "\n".join(f"{name}: {', '.join(places)}" for name, places in twice.items())


def test_every_room_has_one_floor() -> None:
    every = [room for floor in FLOORS for room in floor]
    assert len(every) == len(set(every))
    assert {room_of(path) for path in FILES if path != Path("__init__.py")} <= set(every)


def test_the_page_of_concepts_has_the_same_floors() -> None:
    page = (Path(__file__).parents[1] / "docs" / "concepts.md").read_text(encoding="utf-8")
    house = page.partition("## The house")[2].partition("\n## ")[0]
    table = re.findall(r"^\| (\d+) \|([^|]*)\|[^|]*\|$", house, re.MULTILINE)
    shown = {(room, int(floor)) for floor, rooms in table for room in rooms.replace(",", " ").split()}
    here = {room_of(path) for path in FILES if path != Path("__init__.py")}
    assert shown == {(room, FLOOR[room]) for room in here}
    (rooms,) = re.findall(r"No torch is loaded by (.*?), nor by files", house, re.DOTALL)
    assert set(rooms.replace(" and ", ", ").replace("\n", " ").replace(",", " ").split()) == TORCH_FREE
    (names,) = re.findall(r"of these names\s+anywhere: `([^`]*)`", house)
    assert set(names.split()) == TORCH_FREE_NAMES


def test_no_torch_is_loaded_by_the_files_without_it() -> None:
    names = [
        module_of(path)
        for path in FILES
        if path != Path("__init__.py")
        and is_torch_free(path)
        and "migrations" not in path.parts
        and path.name != "__main__.py"
    ]
    # One process for all; the first that loads torch is named.
    script = (
        "import importlib, sys\n"
        "for name in sys.argv[1:]:\n"
        "    importlib.import_module(name)\n"
        "    if 'torch' in sys.modules: sys.exit(f'{name} loads torch')\n"
    )
    done = subprocess.run([sys.executable, "-c", script, *names], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr

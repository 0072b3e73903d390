"""The arrows of the house: a room imports from itself and from lower floors only.

A room is a folder in the package's root, or a file there. Imports inside functions and for type checkers count; only
the package's lazy ``__init__`` is exempt.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1] / "src" / "evodevo"

# The ground floor lies in this order: each file stands on those before it.
GROUND = ("errors", "randomness", "canonical", "registry", "settings")
FLOORS: tuple[tuple[str, ...], ...] = (
    GROUND,
    ("spaces", "storage", "execution", "tasks"),
    ("evolution", "diagrams", "operators", "routing", "training", "strategist"),
    ("models", "objectives", "report"),
    ("growth", "dashboard"),
    ("evaluation",),
    ("study", "worker", "export"),
    ("system",),
    ("recipes", "estimators"),
    ("runs",),
    ("cli", "testing"),
)
TORCH_FREE = frozenset({*GROUND, "spaces", "storage", "execution", "tasks", "evolution", "diagrams"})
TORCH = frozenset({"torch", "safetensors", "transformers", "entmax"})

FLOOR = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}


def imported(path: Path, source: str) -> Iterator[tuple[int, str]]:
    """(line, absolute dotted name) of everything that a file imports, wherever in it."""
    package = ["evodevo", *path.parent.parts]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            for name in node.names:
                yield node.lineno, name.name
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            for name in node.names:
                yield node.lineno, f"{module}.{name.name}"


def room_of(path: Path) -> str:
    return path.parts[0].removesuffix(".py")


def wrong_arrows(path: Path, source: str) -> list[str]:
    """What is wrong with the imports of one file; ``path`` is relative to the package."""
    room = room_of(path)
    if room not in FLOOR:
        return [f"{path}: the room {room!r} is on no floor; FLOORS says where each room lies"]
    wrong = []
    for line, name in imported(path, source):
        top, _, rest = name.partition(".")
        if top in TORCH and room in TORCH_FREE:
            wrong.append(f"{path}:{line}: {room} has no torch; it imports {name}")
        if top != "evodevo":
            continue
        target = rest.partition(".")[0]
        if target in ("__version__", room):
            continue
        if target not in FLOOR:
            wrong.append(f"{path}:{line}: imports {name}: name the room that it lives in, not the package")
        elif target in GROUND and room in GROUND:
            if GROUND.index(target) > GROUND.index(room):
                wrong.append(f"{path}:{line}: {room} stands below {target} on the ground floor")
        elif FLOOR[target] >= FLOOR[room]:
            wrong.append(f"{path}:{line}: {room} (floor {FLOOR[room]}) imports {target} (floor {FLOOR[target]})")
        elif room in TORCH_FREE and target not in TORCH_FREE:
            wrong.append(f"{path}:{line}: {room} has no torch; it imports {target}, which may")
    return wrong


FILES = sorted(path.relative_to(ROOT) for path in ROOT.rglob("*.py") if path != ROOT / "__init__.py")
ROOMS = sorted({room_of(path) for path in FILES})


@pytest.mark.parametrize("room", ROOMS)
def test_arrows_point_down(room: str) -> None:
    files = [path for path in FILES if room_of(path) == room]
    wrong = [line for path in files for line in wrong_arrows(path, (ROOT / path).read_text(encoding="utf-8"))]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("storage/database.py", "from evodevo.search.study import Study"),
        ("storage/database.py", "import evodevo.search.study"),
        ("storage/database.py", "def f():\n    from evodevo.evolution import nsga2"),
        ("storage/database.py", "if TYPE_CHECKING:\n    from evodevo import study"),
        ("storage/database.py", "from ..study import Study"),
        ("storage/database.py", "from .. import study"),
        ("storage/migrations/env.py", "from ...study import Study"),
        ("storage/database.py", "from evodevo.spaces import base"),
        ("storage/database.py", "import torch"),
        ("execution/base.py", "from safetensors.torch import save"),
        ("evolution/nsga2.py", "from evodevo.routing import gates"),
        ("study.py", "from evodevo.worker import main"),
        ("models/build.py", "from evodevo import Study"),
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
        ("models/build.py", "import torch\nfrom evodevo.operators import liv"),
    ],
)
def test_a_right_arrow_is_left_alone(path: str, source: str) -> None:
    assert not wrong_arrows(Path(path), source)


def test_every_room_has_one_floor() -> None:
    every = [room for floor in FLOORS for room in floor]
    assert len(every) == len(set(every))
    assert set(ROOMS) <= set(every)


def test_the_page_of_concepts_says_the_same() -> None:
    page = (Path(__file__).parents[1] / "docs" / "concepts.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d+) \|([^|]*)\|([^|]*)\|$", page.partition("## The house")[2], re.MULTILINE)
    told = {
        (room, int(floor), plain)
        for floor, *cells in rows
        for plain, cell in zip((True, False), cells, strict=True)
        for room in cell.replace(",", " ").split()
    }
    assert told == {(room, FLOOR[room], room in TORCH_FREE) for room in ROOMS}


def test_no_torch_is_loaded_by_the_rooms_without_it() -> None:
    names = [
        ".".join(("evodevo", *path.with_suffix("").parts)).removesuffix(".__init__")
        for path in FILES
        if room_of(path) in TORCH_FREE and "migrations" not in path.parts and path.name != "__main__.py"
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

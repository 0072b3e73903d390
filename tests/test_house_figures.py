"""The counting parts of ``benchmarks/house.py``, on small trees whose numbers are known."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path, PurePosixPath
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "benchmarks" / "house.py"

FILES = {
    "src/evodevo/__init__.py": "from evodevo.upper.report import show",
    "src/evodevo/errors.py": "",
    "src/evodevo/registry.py": "def table(kind, group): ...\nTABLE = table('none', 'none')",
    "src/evodevo/lower/__init__.py": "",
    "src/evodevo/lower/rows.py": (
        "from evodevo.registry import table\n"
        "ROWS = table('row', 'evodevo.rows')\n"
        "class One: ...\n"
        "class Two: ...\n"
        "CLOSED = {'one': One, 'two': Two}\n"
        "WORDS = {'one': 'first', 'two': 'second'}\n"
    ),
    "src/evodevo/lower/first.py": "from . import second\nfrom evodevo import errors",
    "src/evodevo/lower/second.py": "def f():\n    from evodevo.lower.third import g",
    "src/evodevo/lower/third.py": "import typing\nif typing.TYPE_CHECKING:\n    import evodevo.lower.first\ng = 1",
    "src/evodevo/lower/down.py": "from evodevo.upper.report import show",
    "src/evodevo/upper/__init__.py": "",
    "src/evodevo/upper/report.py": "from evodevo.lower.rows import ROWS\nfrom ..side import name\nshow = ROWS, name",
    "src/evodevo/side.py": "name = 'convolution'",
    "src/evodevo/recipes/one.py": "from evodevo.lower.layers import ConvolutionLayer",
    "tests/test_house.py": (
        "GROUND = ('errors', 'registry')\n"
        "FLOORS: tuple[tuple[str, ...], ...] = (GROUND, ('lower',), ('upper', 'side', 'recipes'))\n"
        "FLOOR = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}\n"
    ),
    "tests/lower/test_rows.py": "one\ntwo\n",
}


@pytest.fixture(scope="module")
def house() -> ModuleType:
    spec = importlib.util.spec_from_file_location("house_figures", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # data classes look their module up
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize(
    ("arrows", "found"),
    [
        ({"a": ["b"], "b": ["c"], "c": []}, []),
        ({"a": ["a"]}, []),
        ({"a": ["b"], "b": ["a"]}, [["a", "b"]]),
        (
            {"a": ["b", "d"], "b": ["c"], "c": ["a"], "d": ["e"], "e": ["d", "f"], "f": []},
            [["a", "b", "c"], ["d", "e"]],
        ),
        ({"a": ["b"], "b": ["a", "c"], "c": ["b"]}, [["a", "b", "c"]]),
        ({"a": ["b", "c"], "b": ["d"], "c": ["d"], "d": []}, []),
        ({str(n): [str((n + 1) % 5000)] for n in range(5000)}, [sorted(map(str, range(5000)))]),
    ],
)
def test_circles_are_the_sets_of_files_that_reach_one_another(
    house: ModuleType, arrows: dict[str, list[str]], found: list[list[str]]
) -> None:
    assert house.circles(arrows) == found


def test_a_circle_through_a_function_and_a_type_is_found(house: ModuleType, tree: Path) -> None:
    arrows = house.Source(tree / "src" / "evodevo").imports()
    assert [[path.name for path in circle] for circle in house.circles(arrows)] == [
        ["first.py", "second.py", "third.py"]
    ]


def test_imports_upward_and_to_the_side_are_counted_and_those_downward_are_not(house: ModuleType, tree: Path) -> None:
    arrows = house.Source(tree / "src" / "evodevo").imports()
    floors = house.floors((tree / "tests" / "test_house.py").read_text())
    assert floors == [["errors", "registry"], ["lower"], ["upper", "side", "recipes"]]
    assert [tuple(map(str, arrow)) for arrow in house.upward(arrows, floors)] == [
        ("lower/down.py", "upper/report.py"),
        ("upper/report.py", "side.py"),
    ]


def test_files_of_the_ground_floor_stand_in_its_order(house: ModuleType) -> None:
    errors, registry = PurePosixPath("errors.py"), PurePosixPath("registry.py")
    floors = [["errors", "registry"]]
    assert house.upward({registry: [errors]}, floors) == []
    assert house.upward({errors: [registry]}, floors) == [(errors, registry)]


def test_a_file_without_a_floor_counts_as_upward(house: ModuleType) -> None:
    arrow = PurePosixPath("errors.py"), PurePosixPath("attic/old.py")
    assert house.upward({arrow[0]: [arrow[1]]}, [["errors"]]) == [arrow]


def test_floors_that_cannot_be_read_are_an_error(house: ModuleType) -> None:
    with pytest.raises(ValueError, match="no FLOORS"):
        house.floors("FLOORS = tuple(read())")


def test_the_largest_folder_is_counted_on_one_level(house: ModuleType, tree: Path) -> None:
    assert house.largest_folder(house.Source(tree / "src" / "evodevo").texts) == ("lower", 6)


def test_tables_are_calls_of_the_registry_and_closed_dictionaries_hold_classes(house: ModuleType, tree: Path) -> None:
    source = house.Source(tree / "src" / "evodevo")
    assert house.registries(source) == ["lower/rows.py: table('row', 'evodevo.rows')"]
    assert house.dictionaries(source) == ["lower/rows.py: CLOSED"]


@pytest.mark.parametrize(
    ("code", "known"),
    [
        ("class ConvolutionLayer: ...", True),
        ("from evodevo.layers import ConvolutionLayer as Other", True),
        ("x = {'convolution': 1, 'mlp': 2, 'lstm': 3}", True),
        ("ROWS.add('c', 'evodevo.layers:ConvolutionLayer')", True),
        ("x = {'convolution': 1, 'mlp': 2}", False),
        ("x = 'convolution'", False),
        ("'''ConvolutionLayer, convolution, mlp, lstm'''", False),
        ("# ConvolutionLayer", False),
    ],
)
def test_code_knows_a_kind_by_its_names_and_not_by_prose(house: ModuleType, tree: Path, code: str, known: bool) -> None:
    (tree / "src" / "evodevo" / "lower" / "second.py").write_text(code, encoding="utf-8")
    found = house.known_in(house.Source(tree / "src" / "evodevo"), house.EXAMPLES["a layer kind"])
    assert found == (["lower/second.py"] if known else [])


def test_every_example_has_its_names_in_this_checkout(house: ModuleType) -> None:
    text = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "src" / "evodevo").rglob("*.py"))
    for what, example in house.EXAMPLES.items():
        for name in example.identifiers:
            defined = re.search(rf"^(class {name}\b|def {name}\(|{name}\b.* = )", text, re.MULTILINE)
            assert defined, f"{what}: {name} is not defined any more; EXAMPLES in {SCRIPT.name} has its old name"


def test_the_script_prints_the_table_of_another_checkout(tree: Path) -> None:
    target = tree / "house.json"
    words = [sys.executable, str(SCRIPT), "--tree", str(tree), "--static", "--minutes", "9.5", "--json", str(target)]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "| files in the largest folder | 6 | ≤ 30 |" in done.stdout
    rows = {row["measure"]: row for row in json.loads(target.read_text())["rows"]}
    assert rows["imports upward, circles"]["value"] == "2, 1"
    assert rows["lines of tests, minutes"]["value"] == "5, 9.5"
    assert all(f"| {name} | {row['value']} | {row['goal']} |" in done.stdout for name, row in rows.items())


def test_a_file_may_belong_to_the_room_of_a_folder(house: ModuleType) -> None:
    test = 'SAME_ROOM = {"worker": "execution"}\nFLOORS = (("errors",), ("execution",))\n'
    arrow = (PurePosixPath("worker.py"), PurePosixPath("execution/warm.py"))
    assert house.same_rooms(test) == {"worker": "execution"}
    assert house.upward({arrow[0]: [arrow[1]]}, house.floors(test), house.same_rooms(test)) == []
    assert house.upward({arrow[0]: [arrow[1]]}, house.floors(test)) == [arrow]

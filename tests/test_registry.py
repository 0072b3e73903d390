"""Tables: rows of slices and of installed packages, in the process that looks them up first."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from evodevo.errors import UsageError
from evodevo.registry import TABLE_MODULES
from evodevo.runs.recipe import RECIPES

SOURCE = Path(__file__).parents[1] / "src" / "evodevo"


def test_a_package_is_enabled_in_every_module_with_a_table() -> None:
    found = set()
    for path in SOURCE.rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        imported = any(
            isinstance(node, ast.ImportFrom)
            and node.module == "evodevo.registry"
            and any(alias.name == "table" for alias in node.names)
            for node in ast.walk(tree)
        )
        if imported:
            found.add(".".join(("evodevo", *path.relative_to(SOURCE).with_suffix("").parts)))
    assert found == set(TABLE_MODULES)


ENABLE = """
import sys
from evodevo.registry import enable_packages
assert enable_packages(("plugin",)) == {"plugin": "1.0"}
from evodevo.module_zoo.modules.nodes.base import NODES
from evodevo.operators.classes import OPERATORS
from evodevo.operators.layers.base import LAYERS
assert (NODES.get("mine"), OPERATORS.get("mine"), LAYERS.get("mine")) == (1, 2, 3)
assert "torch" not in sys.modules
"""


def test_rows_of_a_package_are_found_whatever_was_imported_before(tmp_path: Path) -> None:
    (tmp_path / "plugin.py").write_text("node, operator, layer = 1, 2, 3\n")
    info = tmp_path / "plugin-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: plugin\nVersion: 1.0\n")
    rows = {"zoo_nodes": "node", "operators": "operator", "layers": "layer"}
    points = "".join(f"[evodevo.{group}]\nmine = plugin:{name}\n" for group, name in rows.items())
    (info / "entry_points.txt").write_text(points)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", ENABLE], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_name_that_a_slice_declares_is_taken_before_anyone_looked_it_up() -> None:
    script = """
from evodevo.errors import UsageError
from evodevo.runs.recipe import RECIPES
try:
    RECIPES.add("backbone.demo", "elsewhere:DEMO")
except UsageError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "registered already" in done.stdout


def test_an_unknown_row_is_an_error_with_the_nearest_name() -> None:
    with pytest.raises(UsageError, match=r"backbone\.demo"):
        RECIPES.get("backbone.dem")

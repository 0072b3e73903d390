"""The front door: quick to open, and every name on it leads somewhere."""

from __future__ import annotations

import importlib
import json
import pkgutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import evodevo
from evodevo.cli.application import app

# Typer reads arguments with pydantic, which is quick to load.
HEAVY = {"alembic", "moocore", "numpy", "safetensors", "sqlalchemy", "tokenizers", "torch", "transformers"}


def modules_after(script: str) -> set[str]:
    """Names of all modules that a fresh interpreter has loaded after a script."""
    asks = f"import json, sys\n{script}\nprint('\\n' + json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", asks], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout.splitlines()[-1]))


COMMAND_LINE = "from evodevo.cli.application import run\nassert run({!r}) == 0"


def test_importing_the_package_loads_next_to_nothing() -> None:
    before = modules_after("")
    loaded = modules_after("import evodevo") - before
    assert not loaded & {*HEAVY, "pydantic", "typer"}
    assert len(loaded) < 20


@pytest.mark.parametrize("arguments", [["--help"], ["--version"]], ids=" ".join)
def test_help_loads_nothing_heavy(arguments: list[str]) -> None:
    loaded = modules_after(COMMAND_LINE.format(arguments))
    assert not loaded & HEAVY
    # A second is about 2,000 modules; typer and rich alone are 330.
    assert len(loaded) < 600


@pytest.mark.slow
@pytest.mark.parametrize("command", [c.name or c.callback.__name__ for c in app.registered_commands if c.callback])
def test_the_help_of_each_command_loads_nothing_heavy(command: str) -> None:
    assert not modules_after(COMMAND_LINE.format([command, "--help"])) & HEAVY


@pytest.mark.slow
def test_the_cost_of_a_genome_needs_no_torch() -> None:
    assert "torch" not in modules_after(COMMAND_LINE.format(["cost", "transformer++"]))


@pytest.mark.parametrize("name", sorted(evodevo.__all__))
def test_each_lazy_name_leads_somewhere(name: str) -> None:
    assert getattr(evodevo, name) is not None
    assert name in dir(evodevo)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="evolv"):
        _ = evodevo.evolv


PACKAGES = [module.name for module in pkgutil.walk_packages(evodevo.__path__, "evodevo.") if module.ispkg]


@pytest.mark.parametrize("package", PACKAGES)
def test_each_name_in_all_exists(package: str) -> None:
    module = importlib.import_module(package)
    for name in getattr(module, "__all__", []):
        assert hasattr(module, name), f"{package}.__all__ has {name!r}, which does not exist"


def test_there_is_one_version() -> None:
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())
    assert project["project"]["version"] == evodevo.__version__

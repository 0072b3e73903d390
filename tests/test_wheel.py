"""The wheel holds all that the package needs, and works where only its dependencies are installed."""

from __future__ import annotations

import json
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

import evodevo

ROOT = Path(__file__).parents[1]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def command(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The console script in an environment of its own, which borrows the dependencies but not our source."""
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    # A plain path line: the .pth file of our editable install over there is not followed.
    (packages / "dependencies.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    options = ["--no-deps", "--no-index", "--quiet", "--disable-pip-version-check", "--prefix", str(folder)]
    subprocess.run([sys.executable, "-m", "pip", "install", "--ignore-installed", *options, str(wheel)], check=True)
    return folder / "bin" / "evodevo"


def answer(command: Path, *arguments: str) -> str:
    python = command.parent / "python"
    done = subprocess.run([python, command, *arguments], capture_output=True, text=True, cwd=command.parent)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_everything_of_the_package_is_inside_and_nothing_else(wheel: Path) -> None:
    inside = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    source = ROOT / "src"
    ours = {str(path.relative_to(source)) for path in source.rglob("*") if path.is_file()}
    ours = {name for name in ours if "__pycache__" not in name and ".egg-info" not in name}
    assert inside == ours
    assert "evodevo/py.typed" in inside
    assert any(name.startswith("evodevo/storage/migrations/versions/") for name in inside)


def test_the_licence_travels_with_it(wheel: Path) -> None:
    assert any(name.endswith("licenses/LICENSE") for name in zipfile.ZipFile(wheel).namelist())
    parts = zipfile.ZipFile(wheel).infolist()
    weights = [part.compress_size for part in parts if part.filename.endswith(".safetensors")]
    assert sum(weights) < 1_000_000, "roots in the package"
    other = [
        part.compress_size
        for part in parts
        if not part.filename.endswith((".safetensors", ".py")) and ".dist-info/" not in part.filename
    ]
    assert sum(other) < 32 * 2**10, "neither code nor roots"
    assert wheel.stat().st_size - sum(weights) < 2.75 * 2**20, "all else"


def test_the_installed_command_works(command: Path) -> None:
    assert answer(command, "--version") == f"evodevo {evodevo.__version__}\n"
    cost = json.loads(answer(command, "cost", "transformer++", "--json"))
    assert (cost["parameters"], cost["cache_bytes"]) == (84_934_656, 150_994_944)


def test_the_installed_package_is_the_one_that_runs(command: Path) -> None:
    script = "import evodevo, importlib.metadata as m; print(evodevo.__file__); print(m.version('evodevo'))"
    done = subprocess.run([command.parent / "python", "-c", script], capture_output=True, text=True, check=True)
    place, version = done.stdout.splitlines()
    assert Path(place).is_relative_to(command.parents[1])
    assert version == evodevo.__version__


def test_the_installed_package_makes_a_store(command: Path, tmp_path: Path) -> None:
    script = "import sys; from evodevo.storage import Store; Store.open(sys.argv[1]).close()"
    subprocess.run([command.parent / "python", "-c", script, str(tmp_path / "runs")], check=True)
    assert json.loads(answer(command, "repair", "--store", str(tmp_path / "runs"), "--json"))["problems"] == []

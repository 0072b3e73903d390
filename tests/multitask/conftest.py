"""Stores on disk for the tests of systems that need one, and a system that was really trained."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from evodevo.multitask.system import System
from evodevo.storage import Store
from fixtures.real_system import new_real_system, run_real


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "runs") as opened:
        yield opened


@pytest.fixture(scope="session")
def trained_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store ``runs`` with the system ``real``, whose tasks have ended a cycle; ``cache``, what was prepared."""
    folder = tmp_path_factory.mktemp("real")
    with Store.open(folder / "runs") as store:
        run_real(new_real_system(store), 1, folder)
    return folder


@pytest.fixture
def real(trained_folder: Path, tmp_path: Path) -> Iterator[System]:
    """A copy of that system, in ``tmp_path``."""
    shutil.copytree(trained_folder, tmp_path, dirs_exist_ok=True)
    with Store.open(tmp_path / "runs") as store:
        yield System.open(store, "real")

"""``evodevo extend run --executor``: where children are trained, and that it changes no record."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from evodevo.cli.application import run
from evodevo.errors import ExitCode
from evodevo.multitask.run.run import run_system
from evodevo.multitask.system import System
from evodevo.storage import Store
from evodevo.testing.multitask.paths import told
from evodevo.testing.ray_cluster import RayCluster


@pytest.fixture
def store(systems: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A system with two tasks; each of its agents has ended one cycle."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(systems.grown.parent / "cache"))
    return Path(shutil.copytree(systems.grown, tmp_path / "runs"))


def everything(store: Path) -> dict[str, Any]:
    with Store.open(store) as opened:
        return told(System.open(opened, "zoo"))


@pytest.mark.slow
def test_the_record_does_not_depend_on_the_executor(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = Path(shutil.copytree(store, tmp_path / "other"))
    words = ["extend", "run", "zoo", "--tasks", "digits", "--cycles", "2", "--json"]
    begun = everything(store)
    for place, executor in ((store, ["serial"]), (other, ["processes", "--workers", "2"])):
        assert run([*words, "--store", str(place), "--executor", *executor]) == ExitCode.SUCCESS
        assert json.loads(capsys.readouterr().out.splitlines()[-1])["agents"][0]["cycles"] == 2
    assert everything(store) == everything(other) != begun


REFUSED = [
    (["--executor", "proceses"], "Did you mean 'processes'"),
    (["--executor", "serial", "--address", "auto"], "has no options; leave out: address"),
    (["--executor", "ray", "--set", "execution.options.gpu=1"], "did you mean 'gpus'"),
    (["--set", "execution.threads=2"], "execution.threads is not chosen"),
    (["--set", "execution.worker=2"], "did you mean 'workers'"),
    (["--set", "cycle.samples=2"], "--set changes execution.* alone, not cycle"),
    (["--workers", "0"], "workers"),
]


@pytest.mark.parametrize(("words", "says"), REFUSED, ids=lambda value: value[-1] if isinstance(value, list) else "")
def test_what_cannot_be_is_refused_before_anything_changes(
    store: Path, words: list[str], says: str, refuse: Any
) -> None:
    before = everything(store)
    refuse(["extend", "run", "zoo", "--agents", "multi", *words, "--store", str(store)], ExitCode.USAGE, says)
    assert everything(store) == before


def test_a_recipe_takes_an_executor_as_well(tmp_path: Path, refuse: Any) -> None:
    words = ["extend", "run", "multitask.characters", "--store", str(tmp_path / "runs")]
    refuse([*words, "--executor", "serial", "--address", "auto"], ExitCode.USAGE, "has no options")
    assert not (tmp_path / "runs").exists()


@pytest.mark.slow
def test_a_system_on_nodes_of_a_cluster_is_the_same(store: Path, tmp_path: Path) -> None:
    other = Path(shutil.copytree(store, tmp_path / "other"))
    cycle: dict[str, Any] = {"tasks": ["digits"], "cycles": 2}
    assert run_system("zoo", store=store, execution={"executor": "serial"}, **cycle).state == "finished"
    with RayCluster(nodes=2) as cluster:
        execution = {"executor": "ray", "options": {"address": cluster.address}}
        assert run_system("zoo", store=other, workers=2, execution=execution, **cycle).state == "finished"
    assert everything(store) == everything(other)

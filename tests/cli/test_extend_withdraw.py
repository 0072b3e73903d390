"""``evodevo extend withdraw``: what it says of components that other tasks use, and of those that nobody does."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from evodevo.cli.application import run
from evodevo.errors import ExitCode
from evodevo.multitask.settings import AgentSettings
from evodevo.multitask.system import System
from evodevo.storage import Store
from evodevo.testing.multitask.paths import SIZES, PathTrainer, executor_of, new_system, small, tasks_of

COPIED = small(child={"fine_tuned": 8})
"""All children train copies of all components."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``first`` and ``alone`` share nothing; ``second`` begins with the path of ``first`` and shares what it keeps."""
    place = tmp_path_factory.mktemp("withdraw") / "runs"
    with Store.open(place) as store:
        system = new_system(store, ())
        agents: dict[str, dict[str, Any]] = {
            "first": {"cycle": COPIED},
            "second": {"builds_on": ("VitTiny~first",)},
            "alone": {"cycle": COPIED, "builds_on": ("VitTiny~root_model~random_init",)},
        }
        for task, own in agents.items():
            system.add_agent("VitTiny", task, AgentSettings(classes=3, options={"hyperparameters": SIZES}, **own))
            system.run(tasks_of(system), 1, executor_of(PathTrainer(store)))
    return place


def paths_of(store: Path) -> dict[str, dict[str, int]]:
    """Agent -> component -> its parameters, of each best path."""
    with Store.open(store, "ro") as opened:
        offers = System.open(opened, "zoo").view().offers
        return {name: {part.id: part.parameters for part in offer.components} for name, offer in offers.items()}


def withdrawn(store: Path, task: str, capsys: pytest.CaptureFixture[str], *more: str) -> tuple[str, list[str]]:
    """What is printed on stdout, and the sentences on stderr."""
    capsys.readouterr()
    assert run(["extend", "withdraw", "zoo", task, "--yes", "--store", str(store), *more]) == ExitCode.SUCCESS
    seen = capsys.readouterr()
    return seen.out, seen.err.splitlines()


def unused_words(count: int, parameters: int) -> str:
    return f"{count} components of {parameters:,} parameters are used by nobody any more; the record keeps them."


def expected(paths: dict[str, dict[str, int]], name: str) -> dict[str, Any]:
    own = paths[name]
    users = Counter(user for user, parts in paths.items() if user != name for part in parts if part in own)
    used = {part for user, parts in paths.items() if user != name for part in parts if part in own}
    return {
        "used": len(used),
        "used_parameters": sum(own[part] for part in used),
        "users": dict(users),
        "unused": len(own) - len(used),
        "unused_parameters": sum(count for part, count in own.items() if part not in used),
    }


def test_what_another_task_uses_stays_and_is_told_from_what_nobody_uses(
    made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = Path(shutil.copytree(made, tmp_path / "runs"))
    facts = expected(paths_of(store), "VitTiny~first")
    assert set(facts["users"]) == {"VitTiny~second"}
    assert facts["used"] > 1
    assert facts["unused"] > 1
    said, words = withdrawn(store, "first", capsys)
    assert said.split() == ["withdrawn", "VitTiny~first"]
    used = f"{facts['used']} components of {facts['used_parameters']:,} parameters"
    assert words == [
        f"{used} stay, frozen: others use them: VitTiny~second ({facts['used']}).",
        unused_words(facts["unused"], facts["unused_parameters"]),
    ]
    after = expected(paths_of(store) | {"VitTiny~first": paths_of(made)["VitTiny~first"]}, "VitTiny~first")
    assert after == facts, "the path of the other task is what it was"
    again = Path(shutil.copytree(made, tmp_path / "again"))
    document = json.loads(withdrawn(again, "first", capsys, "--json")[0])
    assert document["remains"] == facts


def test_of_a_task_whose_components_nobody_shares_nothing_stays_in_use(
    made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = Path(shutil.copytree(made, tmp_path / "runs"))
    own = paths_of(store)["VitTiny~alone"]
    assert withdrawn(store, "alone", capsys)[1] == [unused_words(len(own), sum(own.values()))]
    withdrawn(store, "second", capsys)
    parts = paths_of(made)["VitTiny~first"]
    told = withdrawn(store, "first", capsys)[1]
    assert told == [unused_words(len(parts), sum(parts.values()))], "its only user is withdrawn, too"

"""Recorded settings: those of earlier versions of the library open, and rules that are gone are refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from evodevo.cli.application import run
from evodevo.errors import ExitCode, UsageError
from evodevo.multitask.settings import AgentSettings, SystemSettings
from evodevo.multitask.stored import OF_CYCLE, OF_MUTATION, OF_TRAINING, Gone, as_recorded_before, upgraded
from evodevo.multitask.system import System
from evodevo.settings import merge, validate
from evodevo.storage import Store
from evodevo.storage.schema import VERSION_TABLE
from evodevo.testing.multitask.paths import PathTrainer, executor_of, new_system, tasks_of, told

SYSTEM = SystemSettings().model_dump(mode="json")
CYCLE = SYSTEM["cycle"]
AGENT = AgentSettings(classes=3).model_dump(mode="json") | {
    "cycle": CYCLE,
    "options": {"child": {"mutation": {"forced": []}}},
}


def as_before(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings of a system or an agent with all that earlier versions of the library wrote."""
    child = settings.get("options", {}).get("child")
    options = {"options": {"child": as_recorded_before(child, OF_MUTATION)}} if child else {}
    changes = {
        "cycle": as_recorded_before(settings["cycle"], OF_CYCLE),
        "training": as_recorded_before(settings["training"], OF_TRAINING),
    }
    return merge(settings, changes | options)


def test_what_has_the_one_value_that_is_left_is_left_out() -> None:
    for kind, now in ((SystemSettings, SYSTEM), (AgentSettings, AGENT)):
        before = as_before(now)
        assert before["cycle"]["child"]["mutation"] == {
            "forced": ["clone:encoder_norm"],
            "forbidden": [],
            "store": "moved",
            "table": "per_action",
        }
        copy = as_before(now)
        assert upgraded(before, "it") == now
        assert before == copy, "what is recorded stays as it is"
        validate(kind, upgraded(before, "it"), what="it")


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        *(({"version": one}, one) for one in ("v1", "v2", "v3", "v4")),
        ({"options": {"version": "v3"}}, "v3"),
        ({"cycle": {"child": {"mutation": {"store": "always"}}}}, "cycle.child.mutation.store = 'always'"),
        ({"cycle": {"child": {"mutation": {"table": "global"}}}}, "cycle.child.mutation.table = 'global'"),
        ({"cycle": {"child": {"components": {"blocks": "ancestor"}}}}, "components.blocks = 'ancestor'"),
        ({"cycle": {"parents": {"fallback": "rotating"}}}, "parents.fallback = 'rotating'"),
        ({"cycle": {"parents": {"counted": "own"}}}, "parents.counted = 'own'"),
        ({"cycle": {"population": {"ties": "recent"}}}, "population.ties = 'recent'"),
        ({"training": {"keep": "reaches"}}, "training.keep = 'reaches'"),
        ({"options": {"child": {"mutation": {"table": "global"}}}}, "options.child.mutation.table = 'global'"),
    ],
)
def test_rules_that_are_gone_are_named_with_what_is_there_and_what_to_do(changes: dict[str, Any], named: str) -> None:
    with pytest.raises(UsageError) as refused:
        upgraded(merge(as_before(AGENT), changes), "agent 'VitTiny~a'")
    said = str(refused.value)
    assert said.startswith("agent 'VitTiny~a' was recorded with ")
    assert named in said
    assert "'paper' and 'v4b'" in said
    assert "evodevo extend create" in said


def test_every_setting_that_is_gone_is_gone() -> None:
    def has(table: dict[str, Any], one: Gone) -> bool:
        for name in one.names[:-1]:
            table = table[name]
        return one.names[-1] in table

    assert not any(has(CYCLE, one) for one in OF_CYCLE)


@pytest.mark.slow
def test_a_system_of_an_earlier_version_of_the_library_goes_on_as_a_new_one_does() -> None:
    now = new_system(Store.memory(), ("a",), samples=2, size=2)
    store = Store.memory()
    store.systems.create_system("zoo", now.row.seed, as_before(now.row.settings))
    before = System.open(store, "zoo")
    for one in now.agents():
        store.systems.add_agent(before.row.id, one.name, one.kind, one.task, one.seed, as_before(one.settings))
    facts = []
    for system in (now, before):
        system.run(tasks_of(system), 2, executor_of(PathTrainer(system.store)))
        facts.append({name: one["genome"] for name, one in told(system).items() if "~" in name})
    assert facts[0] == facts[1]
    assert len(facts[0]) >= 5, "a root and the children of two cycles"


@pytest.fixture
def refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """What a user is told, in a sentence, who has a command work on the store."""

    def asked(*words: str) -> str:
        capsys.readouterr()
        assert run(["extend", *words, "--store", str(tmp_path / "runs")]) == ExitCode.USAGE
        said = capsys.readouterr()
        assert said.out == ""
        assert "Traceback" not in said.err
        return said.err.splitlines()[-1]

    return asked


@pytest.mark.parametrize("whose", ["system", "agent"])
def test_a_user_who_opens_one_is_told_so(whose: str, store: Store, refused: Callable[..., str]) -> None:
    settings = as_before(SYSTEM) | ({"version": "v3"} if whose == "system" else {})
    store.systems.create_system("zoo", 1, settings)
    row = store.systems.find_system("zoo")
    older = as_before(AGENT) | {"options": {"version": "v3"}}
    store.systems.add_agent(row.id, "VitTiny~a", "VitTiny", "a", 1, older)
    said = refused("run", "zoo", "--cycles", "1")
    assert said.startswith(f"evodevo: {whose} ")
    assert "'v3'" in said
    assert "'paper' and 'v4b'" in said


def test_a_system_of_a_newer_version_is_not_touched(tmp_path: Path, refused: Callable[..., str]) -> None:
    with Store.open(tmp_path / "runs") as store:
        new_system(store)
        with store._database.writing() as connection:
            connection.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = '9999'"))
            connection.execute(text("UPDATE property SET value = '9.9.9' WHERE key = 'evodevo'"))
    before = (tmp_path / "runs" / "store.db").read_bytes()
    for words in (("run", "zoo"), ("status", "zoo"), ("add", "zoo", "new"), ("withdraw", "zoo", "a", "--yes")):
        assert "evodevo>=9.9.9" in refused(*words)
    assert (tmp_path / "runs" / "store.db").read_bytes() == before

"""Systems whose agents probe paths first: one table each, recorded once, used for parents, the same after a kill."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from evodevo.multitask.fork import fork
from evodevo.multitask.search.sampler import Evidence, SamplerSettings, agent_weights
from evodevo.multitask.settings import AgentSettings
from evodevo.multitask.system import System
from evodevo.multitask.transfer import table
from evodevo.multitask.transfer.table import TransferRow, TransferTable, candidates, recorded
from evodevo.storage import Store
from evodevo.testing.multitask import paths
from evodevo.testing.multitask.paths import PathTrainer, add, executor_of, new_system, tasks_of, told

TASKS = ("a", "b", "c")


class Killed(BaseException):
    """In the place of a SIGKILL."""


def grown(**cycle: Any) -> System:
    """A system of three tasks, each learnt after the other, and one that is new."""
    system = new_system(Store.memory(), (), **cycle)
    for task in TASKS:
        add(system, task)
        go(system)
    add(system, "new")
    return system


def go(system: System, workers: int = 1) -> None:
    assert system.run(tasks_of(system), 1, executor_of(PathTrainer(system.store), workers)).state == "finished"


def table_of(system: System, task: str) -> TransferTable | None:
    return recorded(system.store, system.agent(f"VitTiny~{task}").id)


def parents_of(system: System, task: str) -> list[dict[str, Any]]:
    rows = system.store.individuals(system.agent(f"VitTiny~{task}").id)
    return [row.details["story"]["selection"] for row in rows]


@pytest.fixture(scope="module")
def whole() -> System:
    system = grown()
    go(system)
    return system


def test_an_agent_probes_what_it_may_build_on_once_and_not_a_single_path(whole: System) -> None:
    assert table_of(whole, "a") is None, "a root alone leaves no choice"
    made = table_of(whole, "new")
    assert made is not None
    offers = whole.view().offers
    assert {row.path for row in made.rows} == {offer.path.id for name, offer in offers.items() if name != "VitTiny~new"}
    assert [row.loss for row in made.rows] == sorted(row.loss for row in made.rows)
    events = whole.store.events(whole.agent("VitTiny~new").id, type=table.TRANSFER)
    assert len(events) == 1


def test_parents_of_the_first_children_are_drawn_by_the_probes(whole: System) -> None:
    made = table_of(whole, "new")
    assert made is not None
    first = [one for one in parents_of(whole, "new") if one["how"] != "population"]
    assert first
    assert {one["how"] for one in first} == {"probed"}
    chances = Counter({one["parent"]: one["probability"] for one in first})
    best = next(offer for offer in whole.view().offers.values() if offer.path.id == made.rows[0].path)
    assert max(chances, key=chances.__getitem__) == best.id or best.id not in chances


def test_what_trains_all_of_its_parent_begins_with_the_best_probed_one() -> None:
    """One child of six, in each of eight tasks; the others are drawn."""
    system = grown(child={"fine_tuned": 1})
    names = [f"new_{number}" for number in range(8)]
    for name in names:
        add(system, name)
    go(system)
    drawn = []
    for name in names:
        made, selections = table_of(system, name), parents_of(system, name)
        assert made is not None
        best = next(offer for offer in system.view().offers.values() if offer.path.id == made.rows[0].path)
        assert (selections[0]["parent"], selections[0]["how"], selections[0]["probability"]) == (best.id, "probed", 1.0)
        drawn += [one for one in selections[1:] if one["how"] == "probed"]
    assert drawn
    assert all(one["probability"] < 1 for one in drawn)


def test_the_uniform_choice_stays_as_a_setting() -> None:
    system = grown()
    settings = system.agent("VitTiny~new").settings
    assert settings["cycle"]["parents"] == {"fallback": "probed"}
    other = AgentSettings(
        classes=3, options={"hyperparameters": paths.SIZES}, cycle=paths.small(parents={"fallback": "uniform"})
    )
    system.add_agent("VitTiny", "control", other)
    go(system)
    assert table_of(system, "control") is None
    assert "probed" not in {one["how"] for one in parents_of(system, "control")}


@pytest.mark.parametrize("workers", [1, 3])
def test_a_kill_before_or_after_the_probes_changes_nothing(
    whole: System, monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    system = grown()
    record = table.record

    def before(*given: Any) -> None:
        raise Killed

    def after(*given: Any) -> None:
        record(*given)
        raise Killed

    for kill in (before, after):
        monkeypatch.setattr(table, "record", kill)
        with pytest.raises(Killed):
            go(system, workers)
        monkeypatch.setattr(table, "record", record)
        system = System.open(system.store, "zoo")
    go(system, workers)
    assert len(system.store.events(system.agent("VitTiny~new").id, type=table.TRANSFER)) == 1
    assert told(system) == told(whole)


def test_probes_that_fail_leave_the_uniform_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(payload: bytes, report: object) -> bytes:
        raise RuntimeError("no memory")

    monkeypatch.setattr(paths, "probed", fails)
    system = grown()
    go(system)
    made = table_of(system, "new")
    assert made is not None
    assert not made.rows
    assert "no memory" in made.failed
    assert "probed" not in {one["how"] for one in parents_of(system, "new")}


def test_a_copy_has_the_probes_of_the_first(whole: System) -> None:
    copy = fork(whole, "copy")
    assert table_of(copy, "new") == table_of(whole, "new")
    mine, before = told(copy), told(whole)
    assert mine == {**before, "cycles": mine["cycles"]}


def test_at_most_sixteen_are_probed_roots_and_common_classes_first() -> None:
    system = new_system(Store.memory(), ())
    names = tuple("xyz")
    for number in range(20):
        options = {"hyperparameters": paths.SIZES}
        settings = AgentSettings(classes=3, options=options, class_names=names if number == 4 else ("p", "q", "r"))
        system.add_agent("VitTiny", f"t{number}", settings)
    go(system)
    found = candidates(system.view(), "VitTiny~t19", names, ("image",))
    assert len(found) == table.MOST_PROBED
    assert found[0].path.agent.startswith("VitTiny~root")
    assert found[1].path.agent == "VitTiny~t4"
    assert all(one.path.agent != "VitTiny~t19" for one in found)
    assert found[2].path.agent == "VitTiny~t18", "then the latest"


def test_rows_hold_numbers_that_can_be() -> None:
    with pytest.raises(ValueError, match="accuracy"):
        TransferRow(path="a/1", loss=0.1, accuracy=1.2, width=3, seconds=0)


def test_supports_of_multipath_children_are_drawn_by_the_probes_of_the_task() -> None:
    system = grown()
    go(system)
    made = table_of(system, "new")
    assert made is not None
    sampler = {"kind": "probed", "explore": 0.1, "temperature": 0.01}
    options = {"child": {"supports": {"sampler": sampler}}}
    system.add_agent("MultiVitTiny", "new", AgentSettings(classes=3, options=options))
    multi = system.agent("MultiVitTiny~new")
    assert system.run([multi], 1, executor_of(PathTrainer(system.store), 1)).state == "finished"
    others = [name for name in system.view().offers if name not in ("VitTiny~new", multi.name)]
    wanted = agent_weights(others, SamplerSettings.model_validate(sampler), Evidence(losses=made.losses_of_agents))
    assert max(wanted.values()) > 2 * min(wanted.values()), "the probes differ"
    first = [
        row.details["story"]["plan"]["supports"][0]
        for row in system.store.individuals(multi.id)
        if row.details["story"]["plan"]["supports"][0]["how"] == "drawn"
    ]
    assert first
    for support in first:
        assert support["probability"] == pytest.approx(wanted[support["path"]["agent"]])

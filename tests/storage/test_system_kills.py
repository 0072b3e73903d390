"""kill -9 at every named point of a cycle: what was said is there, what was not is not, and the end is the same."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

from evodevo.storage import Store, failpoints
from evodevo.testing.stores.sealing import seal_anew
from storage.forks import forked
from storage.system_coordinator import run


def coordinate(folder: Path, failpoint: str = "") -> tuple[int | None, str]:
    with forked(run, folder, failpoint=failpoint) as process:
        code, said = process.end()
    assert code in (0, -signal.SIGKILL), said
    return code, said


def described(folder: Path) -> dict[str, Any]:
    """The system without what chance or time gave it: ids of runs, attempts, and numbers of events."""
    with Store.open(folder, "ro") as store:
        system = store.systems.find_system("zoo").id
        agents = {one.id: one.name for one in store.systems.agents(system)}
        paths = {
            path.id: (agents[agent], path.number, path.cycle, path.first_component, path.end_component)
            for agent in agents
            for path in store.systems.paths(agent)
        }
        return {
            "agents": list(agents.values()),
            "cycles": [
                (agents[one.agent_id], one.number, one.round, one.view, one.state)
                for one in store.systems.cycles(system_id=system)
            ],
            "paths": list(paths.values()),
            "components": [
                (one.id, one.role, one.parameters, one.digest, one.held, paths[one.path_id])
                for one in store.systems.components(system)
            ],
            "uses": [[use.id for use in uses] for uses in store.systems.components_of(paths).values()],
            "publications": [
                (one.seq, one.agent, one.cycle, paths[one.path_id or ""]) for one in store.systems.publications(system)
            ],
            "done": [sum(row.state == "done" for row in rows) for rows in store.systems.evaluations_of(paths).values()],
        }


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("whole") / "runs"
    assert coordinate(folder)[1].endswith("end\n")
    found = described(folder)
    assert found["done"] == [1] * 12
    assert [one[:2] for one in found["publications"]] == [
        (seq + 1, f"Vit~{task}") for seq, task in enumerate(["root", "a", "b"] * 2)
    ]
    return found


def _look(folder: Path, out: str) -> None:
    """After a kill: all that was said is there, and nothing is there by half."""
    with Store.open(folder, "ro") as store:
        store.check(deep=True).require()
        system = store.systems.find_system("zoo").id
        seqs = {str(one.seq) for one in store.systems.publications(system)}
        lines = [line.split() for line in out.splitlines()]
        assert {words[1] for words in lines if words[0] == "published"} <= seqs
        for agent in store.systems.agents(system):
            paths = store.systems.paths(agent.id)
            assert len(paths) % 2 == 0  # a generation is asked for whole or not at all
            told = {row.individual_id for row in store.evaluations(agent.id, state="done")}
            for path in paths:
                made = [one for one in store.systems.components(system) if one.path_id == path.id]
                uses = store.systems.components_of([path.id])[path.id]
                kept = path.id in told and path.number % 2 == 1
                assert (len(made), bool(uses)) == ((2, True) if kept else (0, False))
            published = [one for one in store.systems.publications(system) if one.agent_id == agent.id]
            closed = [one for one in store.systems.cycles(agent_id=agent.id) if one.state == "closed"]
            assert [one.cycle for one in published] == [one.number for one in closed]
            assert {one.path_id for one in published} <= told


@pytest.mark.parametrize("point", failpoints.SYSTEM_POINTS)
def test_a_kill_at_any_point_leaves_all_or_nothing_and_the_same_end(
    tmp_path: Path, uninterrupted: dict[str, Any], point: str
) -> None:
    folder = tmp_path / "runs"
    code, out = coordinate(folder, f"{point}:kill@3")
    assert code == -signal.SIGKILL
    _look(folder, out)
    code, out = coordinate(folder)
    assert code == 0
    assert described(folder) == uninterrupted
    with Store.open(folder) as store:
        store.gc(grace_seconds=0)
        assert store.check(deep=True).ok


def test_a_half_written_result_would_be_seen(tmp_path: Path, uninterrupted: dict[str, Any]) -> None:
    # The test above would be worthless if a component without its path's uses went unnoticed.
    folder = tmp_path / "runs"
    run(folder)
    assert described(folder) == uninterrupted
    with Store.open(folder) as store, store._database.writing() as connection:
        trigger = "SELECT sql FROM sqlite_master WHERE name = 'component_use_no_delete'"
        statement = connection.exec_driver_sql(trigger).scalar_one()
        connection.exec_driver_sql("DROP TRIGGER component_use_no_delete")
        connection.exec_driver_sql("DELETE FROM component_use WHERE role <> 'shared'")
        connection.exec_driver_sql(statement)  # a store without it is not opened
        seal_anew(connection)
    assert described(folder) != uninterrupted
    with pytest.raises(AssertionError):
        _look(folder, "")

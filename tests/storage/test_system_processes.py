"""Agents of one system in several processes: each writes its own, and sees only what the others have finished."""

from __future__ import annotations

from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path

from evodevo.storage import Store
from evodevo.testing.multitask.systems import new_agent, new_system
from storage.forks import forked
from storage.system_coordinator import run_free

CYCLES = 4


def _see(store: Store, system: str) -> int:
    """Whatever moment this is: all that is published is whole, told, and its weights are right."""
    view = store.systems.view_now(system)
    offered = store.systems.visible(system, view)
    assert [one.seq for one in store.systems.publications(system, until=view)] == list(range(1, view + 1))
    paths = {one.path_id or "": name for name, one in offered.items()}
    for path, parts in store.systems.components_of(paths).items():
        assert [row.state for row in store.systems.evaluations_of([path])[path]] == ["done"]
        assert len(parts) >= 2
        for part in parts:
            assert store.blobs.verify(part.digest) is None
    for users in store.systems.locks(system, view).values():
        assert users <= set(offered)
    return view


def test_two_agents_in_two_processes_see_each_others_finished_cycles(tmp_path: Path) -> None:
    folder = tmp_path / "runs"
    with Store.open(folder) as store:
        system = new_system(store)
        for task in ("root", "a", "b"):
            agent = new_agent(store, system, task)
            if task == "root":
                agent.run_cycle()
    with ExitStack() as stack, Store.open(folder) as store:
        processes = [stack.enter_context(forked(run_free, folder, task, CYCLES)) for task in ("a", "b")]
        for process in processes:
            assert process.out.readline() == "held\n"
        seen = 1
        while seen < 1 + 2 * CYCLES:
            now = _see(store, system)
            assert now >= seen
            seen = now
            store.gc(grace_seconds=0)  # beside both of them
            assert all(one.process.is_alive() for one in processes), [one.end() for one in processes]
        assert store.check(deep=True).ok
        for row in store.systems.agents(system)[1:]:
            cycles = store.systems.cycles(agent_id=row.id)
            assert [one.number for one in cycles] == list(range(CYCLES))
            published = {one.cycle: one for one in store.systems.publications(system) if one.agent_id == row.id}
            for before, after in pairwise(cycles):
                assert published[before.number].seq <= after.view < published[after.number].seq
            assert {store.systems.path(one.path_id or "").agent_id for one in published.values()} == {row.id}
            numbers = [one.number for one in store.systems.paths(row.id)]
            assert numbers == list(range(2 * CYCLES))


def test_a_second_process_for_the_same_agent_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "runs"
    with Store.open(folder) as store:
        agent = new_agent(store, new_system(store), "a")
        other = new_agent(store, agent.system, "b")
        store.release(other.lease)
        with forked(run_free, folder, "a", CYCLES) as process:
            assert "is open in process" in process.refusal()
        with forked(run_free, folder, "b", CYCLES) as process:
            assert process.out.readline() == "held\n"  # another agent of the same system is nobody's
        agent.run_cycle()

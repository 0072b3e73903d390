"""How systems stand, as their rows say: which result counts, and whose rows are whose."""

from __future__ import annotations

from pathlib import Path

import pytest

from evodevo.storage import Evaluation, Score, Store
from evodevo.storage.systems.status import ChildCounts
from evodevo.testing.multitask.systems import FIDELITY, new_agent, new_system


def fates(store: Store, system: str) -> dict[tuple[str, int], ChildCounts]:
    return dict(store.systems.moment(system, FIDELITY, "gone").children)


def test_every_child_counts_once_by_the_result_that_came_last() -> None:
    store = Store.memory()
    system = new_system(store)
    agent = new_agent(store, system, "a")
    agent.begin()
    kept, discarded, failed, lost, waiting = (agent.ask() for _ in range(5))
    agent.tell(kept)
    said = {"scores": {"quality": Score(0.1)}, "extra": {"fate": "discarded"}}
    store.systems.tell(agent.lease, Evaluation(discarded.individual.id, FIDELITY, 0, 1, **said))  # type: ignore[arg-type]
    store.systems.tell(agent.lease, Evaluation(failed.individual.id, FIDELITY, 0, 1, "failed", "timeout"))
    store.systems.tell(agent.lease, Evaluation(lost.individual.id, FIDELITY, 0, 1, "failed", "lost"))
    store.finish_evaluation(agent.lease, Evaluation(waiting.individual.id, "test", 0, 1, **said))  # type: ignore[arg-type]
    assert fates(store, system) == {(agent.id, 0): ChildCounts(created=5, finished=3, kept=1, failed=1)}
    agent.tell(lost, attempt=2)
    found = fates(store, system)[agent.id, 0]
    assert (found, found.discarded) == (ChildCounts(created=5, finished=4, kept=2, failed=1), 1)


def test_systems_of_a_store_do_not_mix() -> None:
    store = Store.memory()
    first, second = new_system(store, "one"), new_system(store, "two")
    a, b = new_agent(store, first, "a"), new_agent(store, second, "a")
    mine = a.run_cycle()
    a.run_cycle()
    theirs = b.run_cycle()
    now = store.systems.moment(first, FIDELITY, "gone")
    assert set(now.children) == {(a.id, 0), (a.id, 1)}
    assert [one.id for one in now.agents] == [a.id]
    assert {one.agent_id for one in now.cycles} == {a.id}
    assert mine not in now.parts, "what is offered no more is not read"
    assert theirs not in now.parts
    assert [(one.system.name, len(one.agents), one.cycles) for one in store.systems.listing()] == [
        ("one", 1, 2),
        ("two", 1, 1),
    ]


def test_owners_are_those_that_hold_something_and_live(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Store.open(tmp_path / "runs") as store:
        system = new_system(store)
        held, free = new_agent(store, system, "a"), new_agent(store, system, "b")
        store.release(free.lease)
        assert set(store.owners()) == {held.id}
        assert store.owners()[held.id] == store.owner(held.id)
        monkeypatch.setattr("evodevo.storage.database.is_alive", lambda owner, one_kernel: False)
        assert store.owners() == {}

"""Systems in the store: written as they go, read as they were, never changed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from evodevo.storage import Store
from evodevo.storage.system_base import Counters, Use
from evodevo.testing.systems import new_agent, new_system, uses_of


@pytest.fixture(params=["folder", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "runs") if request.param == "folder" else Store.memory() as store:
        yield store


def test_a_system_is_read_as_it_was_written(store: Store) -> None:
    system = new_system(store)
    root, child = new_agent(store, system, "root"), new_agent(store, system, "mnist")
    assert [one.name for one in store.systems.agents(system)] == ["Vit~root", "Vit~mnist"]
    first = root.run_cycle(components=3)
    assert store.systems.counters(root.id) == Counters(1, 3)
    child.begin()
    assert store.systems.open_cycle(child.id) == store.systems.cycles(agent_id=child.id)[0]
    discarded = child.ask(components=1)
    asked = child.ask(components=2)
    assert [one.number for one in store.systems.open_asks(child.id)] == [0, 1]
    shared = uses_of(store, first)[:1]
    second = child.tell(asked, others=shared)
    assert [one.id for one in store.systems.open_asks(child.id)] == [discarded.individual.id]
    assert uses_of(store, second) == [
        Use("role_0", "Vit~root:0"),
        Use("role_1", "Vit~mnist:1"),
        Use("role_2", "Vit~mnist:2"),
    ]
    assert store.systems.counters(child.id) == Counters(2, 3)

"""A copy of a system is the system, and what becomes of it is its own matter."""

from __future__ import annotations

import pytest

from evodevo.errors import UsageError
from evodevo.multitask.fork import fork
from evodevo.multitask.system import System
from evodevo.storage import Store
from evodevo.testing.multitask.paths import PathTrainer, add, executor_of, new_system, tasks_of, told


def go(system: System, cycles: int, trainer: PathTrainer | None = None) -> None:
    used = trainer or PathTrainer(system.store)
    assert system.run(tasks_of(system), cycles, executor_of(used)).state == "finished"


@pytest.mark.slow
def test_a_copy_is_the_system_and_trains_nothing() -> None:
    first = new_system(Store.memory(), ("a", "b"))
    go(first, 2)
    before = told(first)
    copy = fork(first, "copy")
    assert told(copy) == {**before, "cycles": told(copy)["cycles"]}
    assert [one[:2] for one in told(copy)["cycles"]] == [one[:2] for one in before["cycles"]]
    assert {one.id for one in copy.agents()}.isdisjoint(one.id for one in first.agents())
    assert fork(first, "copy").row.id == copy.row.id, "it is made once"


@pytest.mark.slow
def test_copies_go_on_alike_and_apart() -> None:
    first = new_system(Store.memory(), ("a", "b"))
    go(first, 1)
    one, other = fork(first, "one"), fork(first, "other")
    go(one, 2)
    add(other, "c")
    go(other, 2)
    fork(first, "one")
    assert len(one.recorded()) == 5
    assert set(other.view().offers) - set(one.view().offers) == {"VitTiny~c"}
    assert len(first.recorded()) == 3, "the first system stands where it stood"
    go(first, 2)
    assert told(first)["publications"] == told(one)["publications"], "a copy goes on as the first would have"


@pytest.mark.slow
def test_a_copy_with_failed_and_discarded_children_is_whole() -> None:
    first = new_system(Store.memory(), ("a",), samples=8)
    trainer = PathTrainer(first.store)
    trainer.fail = lambda job: job["path"]["number"] == 2
    go(first, 2, trainer)
    assert told(fork(first, "copy"))["publications"] == told(first)["publications"]


@pytest.mark.slow
def test_an_interrupted_copy_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    first = new_system(Store.memory(), ("a", "b"))
    go(first, 2)
    published = type(first.store.systems).publish
    left = [3]

    def fails(*given: object, **named: object) -> object:
        if not left[0]:
            raise OSError("power cut")
        left[0] -= 1
        return published(*given, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(type(first.store.systems), "publish", fails)
    with pytest.raises(OSError, match="power cut"):
        fork(first, "copy")
    monkeypatch.undo()
    assert told(fork(first, "copy"))["publications"] == told(first)["publications"]


def test_another_system_of_that_name_is_no_copy() -> None:
    first = new_system(Store.memory())
    new_system(first.store, name="taken")
    System.create(first.store, "other", seed=8)
    go(first, 1)
    with pytest.raises(UsageError, match="no copy"):
        fork(first, "other")

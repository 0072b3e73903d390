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


@pytest.fixture(scope="module")
def first() -> System:
    """Two cycles, in which some children were discarded and some failed."""
    made = new_system(Store.memory())
    trainer = PathTrainer(made.store)
    trainer.fail = lambda job: job["path"]["number"] == 2
    go(made, 2, trainer)
    fates = {one["results"][0][4] for name, one in told(made).items() if "/" in name}
    assert fates == {"kept", "discarded", "failed"}
    return made


@pytest.mark.slow
def test_a_copy_is_the_system_and_trains_nothing(first: System) -> None:
    before, copy = told(first), fork(first, "copy")
    mine = told(copy)
    assert mine == {**before, "cycles": mine["cycles"]}
    assert [one[:2] for one in mine["cycles"]] == [one[:2] for one in before["cycles"]]
    assert {one.id for one in copy.agents()}.isdisjoint(one.id for one in first.agents())
    assert fork(first, "copy").row.id == copy.row.id, "it is made once"


@pytest.mark.slow
def test_copies_go_on_apart(first: System) -> None:
    before = told(first)
    one, other = (fork(first, name) for name in ("one", "other"))
    go(one, 3)
    add(other, "c")
    go(other, 3)
    fork(first, "one")
    assert len(one.recorded()) == 7, "it has gone on since, and is left as it is"
    assert set(other.view().offers) - set(one.view().offers) == {"VitTiny~c"}
    assert told(first) == before, "the first system stands where it stood"


@pytest.mark.slow
def test_a_copy_goes_on_as_the_first_would_have() -> None:
    system = new_system(Store.memory(), ("a",))
    go(system, 1)
    copy = fork(system, "copy")
    go(copy, 2)
    go(system, 2)
    assert told(copy)["publications"] == told(system)["publications"]


@pytest.mark.slow
def test_an_interrupted_copy_goes_on(first: System, monkeypatch: pytest.MonkeyPatch) -> None:
    published = type(first.store.systems).publish
    left = [3]

    def fails(*given: object, **named: object) -> object:
        if not left[0]:
            raise OSError("power cut")
        left[0] -= 1
        return published(*given, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(type(first.store.systems), "publish", fails)
    with pytest.raises(OSError, match="power cut"):
        fork(first, "interrupted")
    monkeypatch.undo()
    assert told(fork(first, "interrupted"))["publications"] == told(first)["publications"]


def test_another_system_of_that_name_is_no_copy() -> None:
    first = new_system(Store.memory())
    new_system(first.store, name="taken")
    System.create(first.store, "other", seed=8)
    go(first, 1)
    with pytest.raises(UsageError, match="no copy"):
        fork(first, "other")

"""A system in rounds is what its seed says: whatever the workers, the kills, and the order of results."""

from __future__ import annotations

import functools
from pathlib import Path as FolderPath
from typing import Any

import pytest

from evodevo.errors import EvaluationsFailedError, RunOwnedError, UsageError
from evodevo.multitask.settings import AgentSettings
from evodevo.multitask.system import System
from evodevo.storage import Store
from evodevo.storage.systems import store as systems
from evodevo.testing.multitask.paths import PathTrainer, add, executor_of, new_system, small, tasks_of, told

POINTS = ("cycle", "ask", "tell", "publish")


class Killed(BaseException):
    """In the place of a SIGKILL: nothing catches it, and what was not committed is gone."""


def run(workers: int = 1, cycles: int = 2, tasks: tuple[str, ...] = ("a", "b")) -> System:
    store = Store.memory()
    system = new_system(store, tasks)
    assert system.run(tasks_of(system), cycles, executor_of(PathTrainer(store), workers)).state == "finished"
    return system


@functools.cache
def facts_of(workers: int = 1, cycles: int = 2, tasks: tuple[str, ...] = ("a", "b")) -> dict[str, Any]:
    """What ``run`` leads to, for tests that only look."""
    return told(run(workers, cycles, tasks))


def killed_run(monkeypatch: pytest.MonkeyPatch, death: int, cycles: int) -> tuple[System, bool]:
    """A run that is killed at its ``death``-th passing of a commit, and gone on with; whether it was killed at all."""
    store, passed = Store.memory(), 0
    system = new_system(store)

    def failpoint(name: str) -> None:
        nonlocal passed
        passed += 1
        if passed == death:
            raise Killed(name)

    monkeypatch.setattr(systems, "failpoint", failpoint)
    agents, was_killed = tasks_of(system), False
    try:
        system.run(agents, cycles, executor_of(PathTrainer(store), 2))
    except Killed:
        was_killed = True
    again = System.open(store, "zoo")
    assert again.run(agents, cycles, executor_of(PathTrainer(store), 2)).state == "finished"
    return again, was_killed


@pytest.mark.slow
def test_the_number_of_workers_changes_nothing() -> None:
    assert facts_of() == facts_of(3) == facts_of(5)


@pytest.mark.slow
def test_another_seed_is_another_system() -> None:
    store = Store.memory()
    other = System.create(store, "zoo", seed=8, settings=run().settings)
    other.add_root("VitTiny", "random_init", AgentSettings.model_validate(run().agents()[0].settings, strict=False))
    add(other, "a")
    other.run(tasks_of(other), 2, executor_of(PathTrainer(store)))
    mine = facts_of(tasks=("a",))
    assert told(other).keys() == mine.keys()
    assert told(other) != mine


@pytest.mark.parametrize("death", [1, 9, 25])
def test_a_killed_run_goes_on_as_if_it_had_not_been(monkeypatch: pytest.MonkeyPatch, death: int) -> None:
    system, was_killed = killed_run(monkeypatch, death, 1)
    assert was_killed
    assert told(system) == facts_of(cycles=1)


@pytest.mark.slow
def test_wherever_it_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    whole, death = facts_of(), 0
    was_killed = True
    while was_killed:
        death += 7  # the points of a child and of a cycle follow one another in steps that seven does not divide
        system, was_killed = killed_run(monkeypatch, death, 2)
        assert told(system) == whole, f"killed at {death}"
    assert death > 60


@pytest.mark.slow
def test_a_stopped_run_goes_on(store: Store) -> None:
    system = new_system(Store.memory())
    trainer = PathTrainer(system.store)
    calls = trainer.calls

    class Impatient(list[Any]):
        def append(self, job: Any) -> None:
            super().append(job)
            if len(self) == 5:
                system.stop()

    trainer.calls = Impatient(calls)
    assert system.run(tasks_of(system), 2, executor_of(trainer)).state == "interrupted"
    assert system.run(tasks_of(system), 2, executor_of(trainer)).state == "finished"
    assert told(system) == facts_of()


@pytest.mark.slow
def test_running_again_changes_nothing() -> None:
    system = run()
    before = told(system)
    trainer = PathTrainer(system.store)
    system.run(tasks_of(system), 2, executor_of(trainer))
    assert told(system) == before
    assert not trainer.calls


@pytest.mark.slow
def test_more_cycles_go_on_where_the_last_one_ended() -> None:
    system = run(cycles=1)
    system.run(tasks_of(system), 2, executor_of(PathTrainer(system.store)))
    assert told(system) == facts_of(cycles=2)


@pytest.mark.slow
def test_a_round_has_one_view_and_its_publications_keep_the_order_of_agents() -> None:
    system = run(3, tasks=("c", "a", "b"))
    facts = told(system)
    views: dict[int, set[int]] = {}
    for _, _, number, view, _ in facts["cycles"]:
        views.setdefault(number, set()).add(view)
    assert all(len(one) == 1 for one in views.values())
    order = [one.name for one in system.agents()]
    published = [one[1] for one in facts["publications"]]
    assert published == [order[0], *order[1:], *order[1:]]


def test_numbers_are_given_once_also_to_the_discarded() -> None:
    facts = facts_of()
    paths = {name: one for name, one in facts.items() if "/" in name}
    for agent in ("VitTiny~a", "VitTiny~b"):
        own = [one for name, one in paths.items() if name.startswith(f"{agent}/")]
        assert sorted(one["genome"]["genes"]["number"] for one in own) == list(range(8))
        new = [part["id"] for one in own for part in one["details"]["parts"] if part["train"]]
        assert len(set(new)) == len(new)
        assert all(name.startswith(f"{agent}:") for name in new)


@pytest.mark.slow
def test_a_child_trains_no_component_that_anybody_else_has() -> None:
    facts = facts_of(tasks=("a", "b", "c"))
    for name, one in ((n, o) for n, o in facts.items() if "/" in n):
        inherited = {part["source"] for part in one["details"]["parts"]}
        trained = {part["id"] for part in one["details"]["parts"] if part["train"]}
        assert not trained & inherited
        shared = [part for part in one["details"]["parts"] if not part["train"]]
        assert all(part["id"] == part["source"] for part in shared)
        if not name.startswith("VitTiny~root"):
            assert {"encoder_norm", "head"} <= {part["role"] for part in one["details"]["parts"] if part["train"]}


@pytest.mark.slow
def test_what_was_published_never_changes() -> None:
    system = run(cycles=1)
    before = {one.id: (one.digest, one.role) for one in system.store.systems.components(system.row.id)}
    system.run(tasks_of(system), 3, executor_of(PathTrainer(system.store)))
    after = {one.id: (one.digest, one.role) for one in system.store.systems.components(system.row.id)}
    assert before.items() < after.items()


def test_nothing_of_an_unfinished_cycle_is_visible() -> None:
    system = new_system(Store.memory())
    trainer = PathTrainer(system.store)
    offered: list[set[str]] = []

    def watch(kind: str, facts: dict[str, Any]) -> None:
        if kind == "child":
            offered.append({f"{one.path.agent}" for one in system.view().offers.values()})

    watched = System(system.store, system.row, listener=watch)
    watched.run(tasks_of(system), 1, executor_of(trainer))
    # The root, then four children of each of two agents: all see the root alone until the round ends.
    assert offered[0] == set()
    assert offered[1:5] == [{"VitTiny~root_model~random_init"}] * 4


@pytest.mark.slow
def test_accounts_add_up_to_the_distinct_parameters() -> None:
    system = run(tasks=("a", "b", "c"))
    for seq in range(1, system.store.systems.view_now(system.row.id) + 1):
        distinct = {c.id: c.parameters for one in system.view(seq).offers.values() for c in one.components}
        assert sum(system.accounts(seq).values()) == pytest.approx(sum(distinct.values()))


@pytest.mark.slow
def test_the_best_score_never_falls() -> None:
    facts = facts_of(cycles=4)
    results = {name: one["results"][0] for name, one in facts.items() if "/" in name}
    for agent in ("VitTiny~a", "VitTiny~b"):
        published = [name for _, owner, _, name in facts["publications"] if owner == agent]
        qualities = [results[name][2]["quality"] for name in published]
        cycles = [[n for n in results if n.startswith(f"{agent}/")][i * 4 : i * 4 + 4] for i in range(4)]
        for cycle, chosen in zip(cycles, published, strict=True):
            kept = [name for name in cycle if results[name][4] == "kept"]
            if chosen in cycle:
                assert results[chosen][2]["score"] == max(results[name][2]["score"] for name in kept)
        assert qualities


@pytest.mark.slow
def test_the_test_metric_never_matters() -> None:
    outcomes = []
    for value in (0.0, 1.0):
        system = new_system(Store.memory())
        trainer = PathTrainer(system.store)
        trainer.test_metric = lambda value=value: value  # type: ignore[misc]
        system.run(tasks_of(system), 2, executor_of(trainer))
        outcomes.append(told(system))
    assert outcomes[0] == outcomes[1]


@pytest.mark.slow
@pytest.mark.parametrize("how", ["it raises", "it contradicts itself"])
def test_a_child_that_fails_is_a_result_of_its_own(how: str) -> None:
    class Liar(PathTrainer):
        def __call__(self, payload: bytes, report: object) -> bytes:
            answer = super().__call__(payload, report)
            return answer.replace(b'"quality":0.', b'"quality":0.9') if chosen(self.calls[-1]) else answer

    def chosen(job: dict[str, Any]) -> bool:
        return (job["path"]["agent"], job["path"]["number"]) == ("VitTiny~a", 1)

    system = new_system(Store.memory())
    trainer = Liar(system.store) if how == "it contradicts itself" else PathTrainer(system.store)
    if how == "it raises":
        trainer.fail = chosen
    system.run(tasks_of(system), 1, executor_of(trainer))
    failed = [one for one in told(system).items() if "/" in one[0] and one[1]["results"][0][0] == "failed"]
    assert [name for name, _ in failed] == ["VitTiny~a/1"]
    assert failed[0][1]["results"][0][1] == "exception"
    assert set(system.view().offers) == {one.name for one in system.agents()}


@pytest.mark.slow
def test_an_agent_all_of_whose_children_fail_ends_the_run_and_may_try_again() -> None:
    system = new_system(Store.memory())
    trainer = PathTrainer(system.store)
    trainer.fail = lambda job: job["path"]["agent"] == "VitTiny~a"
    with pytest.raises(EvaluationsFailedError, match=r"(?s)VitTiny~a: 4 of 4 children failed.*out of luck"):
        system.run(tasks_of(system), 1, executor_of(trainer))
    assert "VitTiny~b" in system.view().offers, "the others' work is not lost"
    trainer.fail = lambda job: False
    system.run(tasks_of(system), 1, executor_of(trainer))
    assert system.best("a").path.number >= 4


def test_agents_need_a_root() -> None:
    store = Store.memory()
    system = System.create(store, "bare")
    add(system, "a")
    with pytest.raises(UsageError, match="needs a root of class VitTiny"):
        system.run(tasks_of(system), 1, executor_of(PathTrainer(store)))


def test_another_process_is_refused(store: Store, tmp_path: FolderPath) -> None:
    system = new_system(store)
    store.acquire(system.agents()[1].id)
    with Store.open(tmp_path / "runs") as other, pytest.raises(RunOwnedError):
        System.open(other, "zoo").run(tasks_of(system), 1, executor_of(PathTrainer(other)))
    assert not store.systems.publications(system.row.id)


def test_generations_are_full() -> None:
    assert small(5, 2).children == 6
    assert small(16, 4).generations == 4

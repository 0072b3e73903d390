"""The laws of docs/spec/munet.md#laws over whole systems; what is trained here is told by ``PathTrainer``.

Where each law stands (files below ``tests/multitask/``; several where it holds for a function and for a system):

frozen logits      test_real (bits), test_imports, paths/test_multipath
first answer       paths/test_decoupled, paths/test_multipath, test_real
decoupling         paths/test_multipath: reference vectors; paths/test_decoupled: the last bit, the naive form, lambda,
                   any module, EMA
mutation           search/test_mutation, search/test_child, test_hyperparameters
parents            search/test_parents; here: counted once, for ever
sharing            search/test_components, test_agents; here: whose components; test_real: weights of a parent
accounts           search/test_score, test_rounds; here: what each child answered for
score              search/test_score, paths/test_block_genomes
pruning, cycles    search/test_score, search/test_parents, training/test_training; test_rounds: the test metric;
                   here: history without heirs, one is left
resume             test_processes, test_rounds, tests/storage
processes          test_processes, tests/storage
inheritance        search/test_supports, paths/test_multipath, test_multipath_agents
resolutions        paths/test_multipath, paths/test_vision_path, test_evaluate
caching, skipping  training/test_training, paths/test_multipath_cache, paths/test_multipath, test_real
insertion          paths/test_vision_path; tests/storage: what is reachable stays
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest

from evodevo.multitask.search.accounts import accounted_parameters
from evodevo.multitask.search.score import ScoreSettings, cost
from evodevo.multitask.system import System
from evodevo.storage import Store
from evodevo.testing.multitask.paths import PathTrainer, executor_of, new_system, tasks_of, told

TASKS = ("a", "b", "c")


@pytest.fixture(scope="module")
def system() -> System:
    """Three tasks, four cycles of two generations of two."""
    made = new_system(Store.memory(), TASKS)
    made.run(tasks_of(made), 4, executor_of(PathTrainer(made.store)))
    return made


def children(system: System, agent: str) -> Iterator[tuple[str, int, dict[str, Any], dict[str, Any]]]:
    """(individual, cycle, details, genes) of an agent's children, in the order in which they were asked for."""
    for row in sorted(system.store.individuals(system.agent(agent).id), key=lambda one: int(one.birth)):
        yield row.id, row.generation, dict(row.details), dict(row.genome_envelope["genes"])


def genes_of(system: System, individual: str) -> dict[str, Any]:
    return dict(system.store.systems.individuals([individual])[individual].genome_envelope["genes"])


@pytest.mark.parametrize("task", TASKS)
def test_a_parent_is_counted_once_for_each_child_and_for_ever(system: System, task: str) -> None:
    """Siblings see it at once, later generations and cycles from the record."""
    counted: Counter[str] = Counter()
    before: list[Counter[str]] = []
    for place, (_, _, details, _) in enumerate(children(system, f"VitTiny~{task}")):
        if place % 2 == 0:
            before.append(counted.copy())
        told_of = {one["id"]: one["offspring"] for one in details["story"]["population"]}
        assert told_of == {name: before[-1][name] for name in told_of}
        for one in details["story"]["selection"]["considered"]:
            assert one["probability"] == 0.5 ** counted[one["id"]]
        if details["accepted"]:
            counted[details["parent"]] += 1
    assert max(counted.values()) >= 2
    assert len(before) == 8


@pytest.mark.parametrize("task", TASKS)
def test_whose_components_a_child_is_made_of(system: System, task: str) -> None:
    """Judged by what others used when the child was asked for."""
    agent = f"VitTiny~{task}"
    views = {one.number: one.view for one in system.store.systems.cycles(agent_id=system.agent(agent).id)}
    fates: Counter[tuple[bool, str]] = Counter()
    for _, cycle, details, genes in children(system, agent):
        parts = {part["role"]: part for part in details["parts"]}
        parent = details["parent"]
        own = genes_of(system, parent)["agent"] == agent
        locked = {part for part, users in system.view(views[cycle]).locks.items() if users - {agent}}
        having = {one.role: one.id for one in system.library.one(parent).components}
        applied = {one["action"] for one in details["story"]["plan"]["decisions"] if one["applied"]}
        assert parts["encoder_norm"]["how"] == "clone"
        for role, part in parts.items():
            fates[own, part["how"]] += 1
            if part["how"] == "reference":
                assert part["id"] == part["source"] == having[role]
                assert part["id"] in locked
            else:
                assert part["id"].startswith(f"{agent}:")
                assert part["id"] != part["source"]
            if part["how"] == "clone" and part["source"] in locked and part["source"] == having.get(role):
                assert f"clone:{role}" in applied
            assert part["source"] is None or part["how"] != "new"
        if not own:
            assert parts["head"]["how"] == "new"
        assert genes["classes"] == 3
    assert fates[False, "reference"] > 0
    assert fates[True, "clone"] > 0


def test_what_a_child_answers_for_is_split_among_its_users(system: System) -> None:
    """Of each child at its cycle's view."""
    for task in TASKS:
        agent = f"VitTiny~{task}"
        views = {one.number: one.view for one in system.store.systems.cycles(agent_id=system.agent(agent).id)}
        for _, cycle, details, _ in children(system, agent):
            locks = system.view(views[cycle]).locks
            shares = [
                part["parameters"] / len({agent, *(() if part["train"] else locks.get(part["id"], ()))})
                for part in details["parts"]
            ]
            assert details["accounted"] == pytest.approx(sum(shares))
            assert details["parameters"] == sum(part["parameters"] for part in details["parts"])


@pytest.mark.parametrize("task", TASKS)
def test_who_does_not_exceed_its_own_parent_is_history_without_heirs(system: System, task: str) -> None:
    """docs/spec/munet.md#kept-weights."""
    agent = f"VitTiny~{task}"
    rows = list(children(system, agent))
    results = system.store.systems.evaluations_of([one for one, *_ in rows])
    components = system.store.systems.components_of([one for one, *_ in rows])
    discarded = set()
    for individual, _, details, _ in rows:
        own = genes_of(system, details["parent"])["agent"] == agent
        assert (details["bar"] is None) == (not own), "only a path of the same agent sets a bar"
        (result,) = results[individual]
        fate, score = result.extra["fate"], result.scores["score"].value
        assert score is not None
        assert (fate == "kept") == (details["bar"] is None or score > details["bar"])
        if fate == "discarded":
            discarded.add(individual)
            assert not components[individual]
    assert discarded
    assert discarded.isdisjoint(details["parent"] for _, _, details, _ in rows)
    living = {one["id"] for _, _, details, _ in rows for one in details["story"]["population"]}
    assert discarded.isdisjoint(living)


@pytest.mark.parametrize("task", TASKS)
def test_one_path_is_left_of_a_cycle_the_best_and_of_equals_the_oldest(system: System, task: str) -> None:
    """docs/spec/munet.md#cycles."""
    row = system.agent(f"VitTiny~{task}")
    published = [one for one in system.store.systems.publications(system.row.id) if one.agent_id == row.id]
    cycles = system.store.systems.cycles(agent_id=row.id)
    assert [one.cycle for one in published] == [one.number for one in cycles] == list(range(4))
    assert all(one.retained == () for one in cycles)
    for before, after in pairwise(published):
        first = next(details for _, cycle, details, _ in children(system, row.name) if cycle == after.cycle)
        assert [one["id"] for one in first["story"]["population"]] == [before.path_id]
    best: list[float] = []
    for one in published:
        view = next(cycle.view for cycle in cycles if cycle.number == one.cycle)
        scores = system_scores(system, row.name, one.cycle or 0, view, published)
        assert one.path_id == min(scores, key=lambda name: (-scores[name], genes_of(system, name)["number"]))
        best.append(scores[one.path_id])
    assert len(best) == 4


def system_scores(system: System, agent: str, cycle: int, view: int, published: list[Any]) -> dict[str, float]:
    """Who could have been published at the end of a cycle, with its score at the cycle's view."""
    root = system.library.one(system.store.systems.publications(system.row.id)[0].path_id or "")
    there = [one for one, number, _, _ in children(system, agent) if number == cycle]
    there += [one.path_id for one in published if one.cycle == cycle - 1]
    found = {}
    for one in system.library.known(there).values():
        accounted = accounted_parameters(one.sizes, system.view(view).locks, agent)
        factor = cost(accounted, one.flops, ScoreSettings(), (float(root.parameters), root.flops)).factor
        found[one.id] = (one.quality or 0.0) * factor
    return found


def test_ties_go_to_the_oldest() -> None:
    """Four children of the root, all equally good, where size costs nothing."""
    system = new_system(Store.memory(), ("a",), samples=4, size=4, score=ScoreSettings(scale=1.0))
    trainer = PathTrainer(system.store)
    trainer.accuracy = lambda path, seed, step: 0.5
    system.run(tasks_of(system), 1, executor_of(trainer))
    assert system.best("a").path.number == 0


@pytest.mark.slow
def test_a_generation_is_asked_for_at_once_whatever_the_workers() -> None:
    """Its size is configuration, never the number of workers."""
    waiting: list[int] = []

    class Counting(PathTrainer):
        def __call__(self, payload: bytes, report: object) -> bytes:
            rows = self.store.systems.open_asks(agent_id)
            waiting.append(len(rows))
            return super().__call__(payload, report)

    for workers in (1, 3):
        waiting.clear()
        system = new_system(Store.memory(), ("a",), samples=6, size=3)
        agents = tasks_of(system)
        agent_id = agents[0].id
        system.run(agents, 1, executor_of(Counting(system.store), workers))
        assert waiting[1:] == ([3, 2, 1] * 2 if workers == 1 else [3, 3, 3, 3, 3, 3]), workers


def test_a_system_is_its_record(system: System) -> None:
    """Nothing but the store's rows decides: read again by another object, it says the same and goes on alike."""
    again = System.open(system.store, "zoo")
    assert told(again) == told(system)
    assert again.accounts() == system.accounts()

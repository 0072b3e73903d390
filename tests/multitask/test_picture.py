"""Pictures of a system tell what its store tells, at every publication."""

from __future__ import annotations

import subprocess
import sys

import pytest

from evodevo.errors import NotFoundError, UsageError
from evodevo.multitask.diagrams.system.graph import system_graph
from evodevo.multitask.diagrams.system.outline import outline
from evodevo.multitask.report.picture import SystemFrames
from evodevo.multitask.settings import AgentSettings
from evodevo.multitask.system import System
from evodevo.storage import Evaluation, Score, Store
from evodevo.testing.multitask.paths import PathTrainer, add, executor_of, new_system, tasks_of

TASKS = ("a", "b", "c")


def grown(cycles: int = 1) -> System:
    system = new_system(Store.memory(), TASKS)
    system.add_agent("MultiVitTiny", "a", AgentSettings(classes=3))
    system.run(tasks_of(system), cycles, executor_of(PathTrainer(system.store)))
    return system


@pytest.fixture(scope="module")
def system() -> System:
    return grown(2)


@pytest.mark.slow
def test_a_frame_is_the_view_of_its_publication(system: System) -> None:
    picture = SystemFrames(system)
    for frame in [picture.frame(one.seq) for one in picture.publications]:
        view = system.view(frame.seq)
        single = {one.path.agent: one for one in view.offers.values() if not one.path.paths}
        assert {one.agent: one.path for one in frame.routes} == {name: one.path.id for name, one in single.items()}
        for route in frame.routes:
            known = view.offers[route.agent]
            assert route.parts == tuple(one.id for one in known.components)
            assert route.accuracy == known.quality
        for model in frame.joined:
            known = view.offers[model.agent]
            assert [one.path for one in model.streams] == [f"{one.agent}/{one.number}" for one in known.path.paths]
            trained = {model.router, *(one.connector for one in model.streams[1:])}
            assert trained == {one.id for one in known.components}
        for part in frame.parts.values():
            maker = system.agent(part.id.rpartition(":")[0])
            assert (part.task, part.root) == (maker.task, maker.settings["root"])


def test_there_is_one_frame_for_each_round_and_the_last_is_now(system: System) -> None:
    picture = SystemFrames(system)
    rounds = {one.round for one in system.store.systems.cycles(system_id=system.row.id)}
    assert len(picture.moments) == len(rounds)
    assert [one.label for one in picture.moments] == [
        "root random_init",
        "VitTiny after 1 cycle",
        "VitTiny after 2 cycles",
        "MultiVitTiny~a after 1 cycle",
        "MultiVitTiny~a after 2 cycles",
    ]
    frames = picture.frames()
    assert frames[-1] == picture.frame()
    assert [len(one.routes) for one in frames] == [1, 4, 4, 4, 4]
    assert [one.seq for one in picture.frames(limit=2)] == [frames[0].seq, frames[-1].seq]


@pytest.mark.slow
def test_without_rounds_each_publication_is_a_frame_and_the_better_of_two_agents_answers_a_task() -> None:
    system = new_system(Store.memory(), ("a", "b"))
    system.add_root("VitT3", "random_init", AgentSettings(classes=0, options={"structure": {"width": 8, "heads": 2}}))
    add(system, "a", "VitT3")
    system.run(tasks_of(system), 1, executor_of(PathTrainer(system.store)), schedule="free")
    picture = SystemFrames(system)
    assert len(picture.moments) == len(picture.publications) == 5
    routes = [one for one in picture.frame().routes if not one.root]
    assert [one.task for one in routes] == ["a", "b"]
    assert routes[0].path == system.best("a").path.id
    assert sum(one.root for one in picture.frame().routes) == 2


def test_a_cycle_is_the_last_state_before_anybody_ended_the_next(system: System) -> None:
    picture = SystemFrames(system)
    first, second = picture.at_cycle(1), picture.at_cycle(2)
    assert first.label == "VitTiny after 1 cycle"
    assert second == picture.frame()
    for wrong in (0, 3):
        with pytest.raises(UsageError, match="have ended at most 2 cycles"):
            picture.at_cycle(wrong)


def test_publications_that_are_not_there_are_refused(system: System) -> None:
    picture = SystemFrames(system)
    with pytest.raises(UsageError, match="the last publication"):
        picture.frame(10_000)
    with pytest.raises(UsageError, match="the last publication"):
        picture.frame(-1)
    with pytest.raises(NotFoundError, match="no multipath model for task 'b'; it has some for a"):
        picture.joined(picture.frame(), "b")
    assert picture.joined(picture.frame(), "a").agent == "MultiVitTiny~a"


def test_an_empty_system_has_an_empty_frame() -> None:
    picture = SystemFrames(new_system(Store.memory(), TASKS))
    assert picture.frame().routes == ()
    assert picture.frame().tasks == TASKS
    assert picture.frames() == []
    with pytest.raises(UsageError, match="has published nothing yet"):
        picture.frame(1)


@pytest.mark.slow
def test_who_withdrew_is_gone_and_what_others_use_of_it_stays() -> None:
    system = grown()
    before = SystemFrames(system).frame()
    inside = before.joined[0].streams[1]
    gone = inside.path.rpartition("/")[0]
    system.withdraw(gone)
    picture = SystemFrames(system)
    frame = picture.frame()
    assert picture.moments[-1].label == f"{gone} withdrawn"
    assert frame.withdrawn == (gone,)
    assert gone not in {one.agent for one in frame.routes}
    assert set(inside.parts) <= set(frame.parts)
    assert not frame.joined[0].streams[1].offered
    assert inside.path in system_graph(frame)
    assert f"withdrawn: {gone}" in outline(frame)
    assert picture.frame(before.seq) == before


@pytest.mark.slow
def test_what_was_measured_on_test_data_is_shown() -> None:
    system = grown()
    model = SystemFrames(system).frame().joined[0]
    agent = system.agent(model.agent)
    individual = system.view().offers[model.agent].id
    lease = system.store.acquire(agent.id)
    attempt = system.store.start_evaluation(lease, individual, "test", 0)
    scores, extra = {"accuracy": Score(0.75)}, {"weights": [0.9, 0.1]}
    system.store.finish_evaluation(lease, Evaluation(individual, "test", 0, attempt, scores=scores, extra=extra))
    system.store.release(lease)
    shown = SystemFrames(system).frame().joined[0]
    assert shown.test == 0.75
    assert [one.weight for one in shown.streams][:2] == [0.9, 0.1]
    assert model.test is None


@pytest.mark.slow
def test_no_torch_is_loaded() -> None:
    modules = "evodevo.multitask.report.picture, evodevo.multitask.diagrams.system.graph"
    code = f"import sys, {modules}; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)

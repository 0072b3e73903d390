"""Roots that tasks of a system train together: whose weights they begin with, what trains them, and who shares them."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import torch

from evodevo import canonical
from evodevo.cli.application import run
from evodevo.errors import UsageError
from evodevo.execution.base import Event, Job
from evodevo.execution.serial import SerialExecutor
from evodevo.multitask import joint
from evodevo.multitask.agents.singlepath import head_that_learned
from evodevo.multitask.budgets.budget import FEWEST, read_budget
from evodevo.multitask.budgets.spending import Spending, course_of
from evodevo.multitask.diagrams.system.graph import system_graph
from evodevo.multitask.evaluate import evaluate_path
from evodevo.multitask.fork import fork
from evodevo.multitask.joint import evaluate_joint
from evodevo.multitask.paths.blocks_spec import HEAD, NORM
from evodevo.multitask.paths.weights import load_state
from evodevo.multitask.recorded import QUALITY, deciding
from evodevo.multitask.report.picture import SystemFrames
from evodevo.multitask.run.create import add_root, add_task, create_system
from evodevo.multitask.run.run import PlannedCycles, Session, run_system
from evodevo.multitask.schedule import is_joint, is_root, stages
from evodevo.multitask.settings import JOINT, TASK_HEAD
from evodevo.multitask.stored import agent_settings
from evodevo.multitask.system import System
from evodevo.randomness import integer_seed
from evodevo.search.problem import read_answer
from evodevo.storage import Store

SETTINGS: dict[str, Any] = {
    "cycle": {"samples": 1, "generation_size": 1},
    "training": {"batch": 32, "validations": 2, "most_between": 96, "device": "cpu"},
}
TASKS: dict[str, dict[str, Any]] = {"digits": {}, "digits_parity": {"question": "parity"}}
ROOT, JOINED = "ConvTiny~root_model~random_init", "ConvTiny~root_model~joint"


def folders(folder: Path) -> dict[str, Any]:
    return {"store": folder / "runs", "cache_folder": folder / "cache"}


def made(folder: Path, *, joined: bool = True, steps: int = 12, seed: int = 0, **own: Any) -> None:
    create_system("zoo", kind="ConvTiny", root="random_init", seed=seed, overrides=SETTINGS, **folders(folder))
    for name, question in TASKS.items():
        add_task("zoo", name, **question, overrides=own, **folders(folder))
    if joined:
        add_root("zoo", root=JOINT, kind="ConvTiny", overrides={"training": {"steps": steps}}, **folders(folder))


def ran(folder: Path, schedule: Any = "rounds", cycles: int = 1) -> None:
    with Store.open(folder / "runs") as store, SerialExecutor() as executor:
        system = System.open(store, "zoo")
        agents = [agent for agent in system.agents() if not is_root(agent)]
        system.run(agents, cycles, executor, schedule=schedule, cache=str(folder / "cache"))


def offers(folder: Path) -> dict[str, Any]:
    with Store.open(folder / "runs") as store:
        return dict(System.open(store, "zoo").view().offers)


@pytest.fixture(scope="module")
def joined(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("joined")
    made(folder)
    ran(folder)
    return folder


@pytest.fixture(scope="module")
def request_of_root(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a worker is asked for: the training of a joint root."""
    folder, caught = tmp_path_factory.mktemp("request"), []
    made(folder)

    class Catching(SerialExecutor):
        def _evaluate(self, job: Job) -> list[Event]:
            if job.entry == "path_joint":
                caught.append(canonical.loads(job.payload, max_bytes=1 << 26))
            return super()._evaluate(job)

    with Store.open(folder / "runs") as store, Catching() as executor:
        system = System.open(store, "zoo")
        system.run([agent for agent in system.agents() if is_root(agent)], 1, executor, cache=str(folder / "cache"))
    assert len(caught) == 1
    found: dict[str, Any] = caught[0]
    return found


def answer(entry: Any, request: dict[str, Any]) -> Any:
    outcome = read_answer(entry(canonical.dumps(request).encode(), lambda message: None))
    assert outcome.reason is None, outcome.detail
    return outcome


# What it is


def test_a_joint_root_is_a_trained_copy_of_another_root_and_a_head_for_each_task(joined: Path) -> None:
    with Store.open(joined / "runs") as store:
        system = System.open(store, "zoo")
        found = system.view().offers
        first, root = found[ROOT], found[JOINED]
        assert root.path.classes == 0
        path, heads = root.components[:-2], root.components[-2:]
        assert [part.role for part in path] == [part.role for part in first.components]
        assert [part.role for part in heads] == [f"{TASK_HEAD}0", f"{TASK_HEAD}1"]
        biases = [load_state(store.blobs, part.digest, part.role)["project.bias"] for part in heads]
        assert [len(bias) for bias in biases] == [10, 2]
        assert all(bias.any() for bias in biases), "each has learned"
        row = store.individuals(system.agent(JOINED).id)[0]
        parts = row.details["parts"]
        assert [part["source"] for part in parts] == [*(part.id for part in first.components), None, None]
        assert [part["how"] for part in parts] == [*("clone" for _ in first.components), "new", "new"]
        assert [part["parameters"] for part in parts] == [part.parameters for part in root.components]
        for old, new in zip(first.components, path, strict=True):
            before, after = (load_state(store.blobs, part.digest, part.role) for part in (old, new))
            assert before.keys() == after.keys()
            assert any(not torch.equal(before[name], after[name]) for name in before), "each has learned"
        result = deciding(store.systems.evaluations_of([row.id])[row.id])
        assert result is not None
        facts = result.extra["answer"]
        assert set(facts["tasks"]) == set(TASKS)
        assert root.quality == pytest.approx(sum(facts["tasks"].values()) / 2)
        assert (facts["steps"], facts["samples"]) == (12, 12 * 32)


def head_of(root: Any, number: int) -> str:
    """The head that a joint root keeps for the task of a number."""
    (head,) = [part.id for part in root.components if part.role == f"{TASK_HEAD}{number}"]
    return str(head)


def blocks_of(root: Any) -> set[str]:
    """Components of a joint root that its tasks may share."""
    return {part.id for part in root.components if part.role != NORM and not part.role.startswith(TASK_HEAD)}


def test_an_agent_s_first_child_is_the_root_and_its_head_and_trains_nothing(joined: Path) -> None:
    with Store.open(joined / "runs") as store:
        system = System.open(store, "zoo")
        found = system.view().offers
        root = found[JOINED]
        row = store.individuals(system.agent(JOINED).id)[0]
        result = deciding(store.systems.evaluations_of([row.id])[row.id])
        assert result is not None
        path = {part.role: part.id for part in root.components if not part.role.startswith(TASK_HEAD)}
        for number, name in enumerate(TASKS):
            own = found[f"ConvTiny~{name}"]
            assert {part.role: part.id for part in own.components} == {**path, HEAD: head_of(root, number)}
            child = store.individuals(system.agent(own.path.agent).id)[0]
            assert not any(part["train"] for part in child.details["parts"])
            answered = deciding(store.systems.evaluations_of([child.id])[child.id])
            assert answered is not None
            assert answered.extra["answer"]["steps"] == 0
            assert answered.extra["evals"] == [result.extra["answer"]["tasks"][name]] == [own.quality]


def test_its_second_child_trains_copies_of_all_of_it_head_included(tmp_path: Path) -> None:
    made(tmp_path, cycle={"samples": 2, "generation_size": 2, "child": {"fine_tuned": 1}})
    ran(tmp_path)
    with Store.open(tmp_path / "runs") as store:
        system = System.open(store, "zoo")
        root = system.view().offers[JOINED]
        for number, name in enumerate(TASKS):
            _, child = store.individuals(system.agent(f"ConvTiny~{name}").id)
            assert {(part["how"], part["train"]) for part in child.details["parts"]} == {("clone", True)}
            sources = {part["role"]: part["source"] for part in child.details["parts"]}
            assert sources[HEAD] == head_of(root, number)


def test_further_shared_children_train_its_norm_and_its_head(tmp_path: Path) -> None:
    made(tmp_path, cycle={"samples": 2, "generation_size": 1, "child": {"shared": 2}})
    ran(tmp_path)
    with Store.open(tmp_path / "runs") as store:
        system = System.open(store, "zoo")
        for name in TASKS:
            _, child = store.individuals(system.agent(f"ConvTiny~{name}").id)
            trained = {part["role"]: part["how"] for part in child.details["parts"] if part["train"]}
            assert trained == {NORM: "clone", HEAD: "clone"}


def test_heads_of_a_joint_root_are_not_drawn_on_its_line(joined: Path) -> None:
    with Store.open(joined / "runs") as store:
        frames = SystemFrames(System.open(store, "zoo"))
        alone, frame = (frames.frame(one.seq) for one in (frames.moments[1], frames.moments[-1]))
    (line,) = [route for route in frame.routes if route.agent == JOINED]
    assert [frame.parts[part].role for part in line.parts] == ["embedding", "encoderblock_0", "encoderblock_1", NORM]
    assert not any(part.role.startswith(TASK_HEAD) for part in frame.parts.values())
    assert [alone.heads, frame.heads] == [2, 0], "tasks use them now"
    assert [part.role for part in frame.parts.values()].count(HEAD) == 2
    assert "not drawn: heads of joint roots that no path uses, 2" in system_graph(alone)
    assert "not drawn" not in system_graph(frame)


def test_a_joint_root_of_before_heads_were_kept_gives_a_new_head(joined: Path) -> None:
    with Store.open(joined / "runs") as store:
        system = System.open(store, "zoo")
        view = system.view()
        root, settings = view.offers[JOINED], agent_settings(system.agent("ConvTiny~digits"))
        assert [place.role for place in head_that_learned(root, view, settings)] == [HEAD]
        path = tuple(part for part in root.components if not part.role.startswith(TASK_HEAD))
        assert head_that_learned(dataclasses.replace(root, components=path), view, settings) == []
        other = settings.model_copy(update={"task_key": "0" * 64})
        assert head_that_learned(root, view, other) == []


def test_where_nothing_is_taken_of_others_no_head_is(tmp_path: Path) -> None:
    made(tmp_path, cycle={"child": {"components": {"head": ["*"]}}})
    ran(tmp_path)
    with Store.open(tmp_path / "runs") as store:
        system = System.open(store, "zoo")
        for name in TASKS:
            (child,) = store.individuals(system.agent(f"ConvTiny~{name}").id)
            assert {part["how"] for part in child.details["parts"]} == {"new"}


@pytest.mark.parametrize("seed", range(3))
def test_what_is_shared_is_of_the_root_that_learned_the_task_whatever_is_drawn(tmp_path: Path, seed: int) -> None:
    made(tmp_path, seed=seed, cycle={"parents": {"fallback": "uniform"}})
    # A later root of other samples is none to share.
    for name in ("one", "two"):
        add_task("zoo", f"digits_{name}", only=("0", "1") if name == "one" else ("2", "3"), **folders(tmp_path))
    add_root("zoo", root="joint:digits_one,digits_two", kind="ConvTiny", overrides={"training": {"steps": 2}},
             **folders(tmp_path))  # fmt: skip
    ran(tmp_path)
    found = offers(tmp_path)
    for name in TASKS:
        whose = {part.id.partition(":")[0] for part in found[f"ConvTiny~{name}"].components}
        assert whose == {JOINED}
    for name in ("one", "two"):
        whose = {part.id.partition(":")[0] for part in found[f"ConvTiny~digits_{name}"].components}
        assert f"{JOINED}_2" in whose


def test_shared_children_of_an_agent_that_has_paths_share_those_of_others(tmp_path: Path) -> None:
    made(tmp_path, cycle={"samples": 3, "generation_size": 1, "child": {"shared": 3}})
    ran(tmp_path)
    with Store.open(tmp_path / "runs") as store:
        system = System.open(store, "zoo")
        for name in TASKS:
            rows = store.individuals(system.agent(f"ConvTiny~{name}").id)
            parents = [row.details["parent"] for row in rows]
            assert parents == [system.view().offers[JOINED].id] * 3


def test_without_it_or_told_so_no_child_does(tmp_path: Path) -> None:
    def of_others(folder: Path, root: str) -> list[int]:
        ran(folder)
        found = offers(folder)
        theirs = {part.id for part in found[root].components}
        return [sum(part.id in theirs for part in found[f"ConvTiny~{name}"].components) for name in TASKS]

    for name in ("alone", "told"):
        (tmp_path / name).mkdir()
    # A root that a task has trained may be shared; one at random never is.
    rotated = {"task": {"rotate": 3}, "training": {"steps": 4}}
    alone = {"kind": "ConvTiny", "root": "pretrain:digits_rotated", "overrides": {**SETTINGS, "root": rotated}}
    create_system("zoo", **alone, **folders(tmp_path / "alone"))
    for name, question in TASKS.items():
        add_task("zoo", name, **question, **folders(tmp_path / "alone"))
    pretrained = "ConvTiny~root_model~digits_rotated"
    assert of_others(tmp_path / "alone", pretrained) == [0, 0], "its first child trains all"
    made(tmp_path / "told", cycle={"child": {"shared": 0}})
    assert of_others(tmp_path / "told", JOINED) == [0, 0]


# How it is trained


def test_of_one_task_it_is_the_training_of_a_path(request_of_root: dict[str, Any]) -> None:
    task = request_of_root["together"][0]
    components = request_of_root["components"]
    blocks = {role: source for role, source in components.items() if not role.startswith(TASK_HEAD)}
    own = {**blocks, f"{TASK_HEAD}0": components[f"{TASK_HEAD}0"]}
    outcome = answer(evaluate_joint, {**request_of_root, "together": [task], "components": own})
    plain = {key: value for key, value in request_of_root.items() if key != "together"}
    path = {**request_of_root["path"], "classes": task["classes"], "task": task["name"]}
    alone = answer(
        evaluate_path,
        {
            **plain,
            "path": path,
            "components": {**blocks, HEAD: {"train": True, "how": "new"}},
            "task": task["name"],
            "task_settings": task["task"],
            "task_key": task["task_key"],
            "seed": integer_seed(request_of_root["seed"], task["name"]),
        },
    )
    assert outcome.scores == alone.scores
    assert HEAD in alone.blobs
    renamed = {f"{TASK_HEAD}0" if role == HEAD else role: digest for role, digest in alone.blobs.items()}
    assert outcome.blobs == renamed


def test_tasks_take_turns_with_steps_of_one_size_and_samples_of_their_own(
    request_of_root: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    places, turns = joint.training_places, []

    def noted(count: int, seed: int, turn: int, size: int) -> Any:
        turns.append((seed, turn, size))
        return places(count, seed, turn, size)

    monkeypatch.setattr(joint, "training_places", noted)
    outcome = answer(evaluate_joint, request_of_root)
    seeds = [integer_seed(request_of_root["seed"], one["name"]) for one in request_of_root["together"]]
    steps = outcome.extra["steps"]
    wanted = [(seeds[step % 2], step // 2, 32) for step in range(steps)]
    assert [one for one in turns if one in set(wanted)] == turns
    assert list(dict.fromkeys(turns)) == wanted
    assert len(set(seeds)) == 2
    assert outcome.scores[QUALITY] == max(outcome.extra["evals"])


def test_the_same_request_has_the_same_weights_and_another_seed_others(request_of_root: dict[str, Any]) -> None:
    first, again = (answer(evaluate_joint, request_of_root) for _ in range(2))
    assert first.blobs == again.blobs
    other = answer(evaluate_joint, {**request_of_root, "seed": request_of_root["seed"] + 1})
    assert all(other.blobs[role] != digest for role, digest in first.blobs.items())


def test_a_root_that_was_planned_before_heads_were_kept_trains_them_and_keeps_none(
    request_of_root: dict[str, Any],
) -> None:
    components = request_of_root["components"]
    before = {role: source for role, source in components.items() if not role.startswith(TASK_HEAD)}
    old = answer(evaluate_joint, {**request_of_root, "components": before})
    new = answer(evaluate_joint, request_of_root)
    assert old.blobs == {role: new.blobs[role] for role in before}
    assert old.scores == new.scores


def test_paths_of_tasks_are_one_but_for_their_heads(
    request_of_root: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    trained: list[tuple[Any, dict[str, Any]]] = []
    train = joint.train_path

    def noted(model: Any, components: Any, *rest: Any, **how: Any) -> Any:
        trained.append((model, dict(components)))
        return train(model, components, *rest, **how)

    monkeypatch.setattr(joint, "train_path", noted)
    outcome = answer(evaluate_joint, request_of_root)
    ((model, components),) = trained
    first, second = (path.parts for path in model.paths.values())
    shared = [role for role in request_of_root["components"] if not role.startswith(TASK_HEAD)]
    for role in shared:
        assert first[role] is second[role] is components[role]
    heads = [first[HEAD], second[HEAD]]
    assert [len(list(head.parameters())[-1]) for head in heads] == [10, 2], "one for the classes of each task"
    assert {id(part) for part in components.values()} == {id(part) for part in (*first.values(), second[HEAD])}
    assert [components[f"{TASK_HEAD}{number}"] for number in range(2)] == heads
    assert set(outcome.blobs) == set(request_of_root["components"])
    # What a batch of one task teaches is learned by all that is shared, and by no other head.
    batch = torch.zeros(2, 3, 32, 32)
    model.zero_grad()
    model({"1": batch}).sum().backward()
    taught = [any(one.grad is not None and one.grad.any() for one in head.parameters()) for head in heads]
    assert taught == [False, True]
    assert all(any(one.grad.any() for one in first[role].parameters()) for role in shared)


# When it is trained


@pytest.mark.parametrize("schedule", ["rounds", "free"])
def test_it_waits_for_the_root_that_it_begins_with_and_agents_for_it(tmp_path: Path, schedule: str) -> None:
    made(tmp_path)
    ran(tmp_path, schedule)
    with Store.open(tmp_path / "runs") as store:
        system = System.open(store, "zoo")
        agents = system.agents()
        published = [one.agent for one in store.systems.publications(system.row.id)]
        assert published.index(ROOT) < published.index(JOINED)
        if schedule == "rounds":
            assert published == [ROOT, JOINED, *(f"ConvTiny~{name}" for name in TASKS)]
            order = [[agent.name for agent in stage] for stage in stages(agents)]
            assert order == [[ROOT], [JOINED], [f"ConvTiny~{name}" for name in TASKS]]


def test_a_budget_has_half_for_it_and_so_many_steps_for_each_task(tmp_path: Path) -> None:
    create_system("zoo", kind="ConvTiny", root="random_init", **folders(tmp_path))
    for name, question in TASKS.items():
        add_task("zoo", name, **question, **folders(tmp_path))
    add_root("zoo", root=JOINT, kind="ConvTiny", **folders(tmp_path))
    with Store.open(tmp_path / "runs") as store:
        system = System.open(store, "zoo")
        every = system.agents()
        agents = [agent for agent in every if not is_root(agent)]

        def children(given: str) -> dict[str, int]:
            course = course_of(store, system.row.id, every, agents, given, 1)
            paces = {agent.id: 0.01 for agent in every}
            spending = Spending(
                store, system.row.id, every, agents, read_budget(given), course, pace=paces, workers=1,
                clock=lambda: 0.0,
            )  # fmt: skip
            found = {name: one for name, _, one in spending.schedule() if name != JOINED}
            assert {one.untrained for one in found.values()} == {1}, "the first shares the root and makes no step"
            assert all(one.total == one.most_steps * (one.children - 1) for one in found.values())
            return {name: one.total for name, one in found.items()}

        # Half is the root's; one child of each task trains a copy, with all that is left.
        assert set(children("2000steps").values()) == {500}
        assert set(children("4000steps").values()) == {1000}

        def planned(given: str, pace: float = 0.01, workers: int = 1) -> dict[str, int]:
            course = course_of(store, system.row.id, every, agents, given, 1)
            paces = {agent.id: pace for agent in every}
            spending = Spending(
                store, system.row.id, every, agents, read_budget(given), course, pace=paces, workers=workers,
                clock=lambda: 0.0,
            )  # fmt: skip
            return {name: one.total for name, _, one in spending.schedule()}

        assert planned("4000steps") == {JOINED: 2000, "ConvTiny~digits": 1000, "ConvTiny~digits_parity": 1000}
        assert planned("8000steps")[JOINED] == 4000
        # A root is one training: other workers cannot make it shorter.
        for workers in (1, 4):
            assert planned("80s", workers=workers)[JOINED] == 4000
        shortest = 2 * FEWEST + 2 * FEWEST
        assert planned(f"{shortest}steps")[JOINED] == 2 * FEWEST
        with pytest.raises(UsageError, match=f"the shortest one is {shortest}steps"):
            planned(f"{shortest - 1}steps")


def test_the_schedule_that_is_shown_first_counts_children_that_make_no_step(tmp_path: Path) -> None:
    create_system("zoo", kind="ConvTiny", root="random_init", overrides=SETTINGS, **folders(tmp_path))
    for name, question in TASKS.items():
        add_task("zoo", name, **question, **folders(tmp_path))
    add_root("zoo", root=JOINT, kind="ConvTiny", **folders(tmp_path))
    planned: list[PlannedCycles] = []

    def begin(session: Session) -> None:
        planned.extend(session.planned)
        session.stop()

    with SerialExecutor() as executor:
        run_system("zoo", budget="20000steps", executor=executor, on_start=begin, **folders(tmp_path))
    found = {one.agent: one.untrained for one in planned}
    assert found == {JOINED: 0} | {f"ConvTiny~{name}": 1 for name in TASKS}


def test_agents_that_combine_paths_train_all_their_children_and_read_the_root_and_what_begins_as_it(
    tmp_path: Path,
) -> None:
    create_system("zoo", kind="ConvTiny", root="random_init", overrides=SETTINGS, **folders(tmp_path))
    for name, question in TASKS.items():
        add_task("zoo", name, multi=True, **question, **folders(tmp_path))
    add_root("zoo", root=JOINT, kind="ConvTiny", overrides={"training": {"steps": 4}}, **folders(tmp_path))
    with Store.open(tmp_path / "runs") as store:
        system = System.open(store, "zoo")
        every = system.agents()
        agents = [agent for agent in every if not is_root(agent)]
        course = course_of(store, system.row.id, every, agents, "20000steps", 1)
        spending = Spending(
            store, system.row.id, every, agents, read_budget("20000steps"), course, pace={}, workers=1,
            clock=lambda: 0.0,
        )  # fmt: skip
        found = {name: one.untrained for name, _, one in spending.schedule()}
        assert found == {JOINED: 0} | {agent.name: int(agent.kind == "ConvTiny") for agent in agents}
    ran(tmp_path)
    found_paths = offers(tmp_path)
    for name in TASKS:
        inside = found_paths[f"MultiConvTiny~{name}"].path.paths
        assert inside[0].agent == f"ConvTiny~{name}"
        assert len(inside) > 1


def test_a_copy_of_a_system_has_it_too(joined: Path) -> None:
    with Store.open(joined / "runs") as store:
        system = System.open(store, "zoo")
        copy = fork(system, "copy")
        for name, offer in system.view().offers.items():
            theirs = copy.view().offers[name]
            assert [part.digest for part in theirs.components] == [part.digest for part in offer.components]
        assert [agent.name for agent in copy.agents() if is_joint(agent)] == [JOINED]


# What a user gives


def test_it_needs_tasks_of_the_system_that_its_class_reads(tmp_path: Path) -> None:
    create_system("zoo", kind="ConvTiny", root="random_init", overrides=SETTINGS, **folders(tmp_path))

    def refused(match: str, **given: Any) -> None:
        with pytest.raises(UsageError, match=match):
            add_root("zoo", **{"kind": "ConvTiny", "root": JOINT, **given}, **folders(tmp_path))

    refused("2 tasks at least; system 'zoo' has none")
    add_task("zoo", "digits", **folders(tmp_path))
    refused("2 tasks at least; system 'zoo' has digits for class ConvTiny")
    add_task("zoo", "digits_parity", question="parity", **folders(tmp_path))
    refused("task of system 'zoo' 'digit_parity'. Did you mean 'digits_parity'", root="joint:digits,digit_parity")
    refused("begins with another root of class ConvSmall", kind="ConvSmall")
    refused("only root.training can be set, not structure", overrides={"structure": {"widths": [16, 24]}})
    refused("steps", overrides={"training": {"steps": -1}})
    refused("leave --data out", data=tmp_path)
    with pytest.raises(UsageError, match="add its tasks, then evodevo extend create"):
        create_system("new", kind="ConvTiny", root=JOINT, **folders(tmp_path))
    add_root("zoo", root="joint:digits_parity,digits", **folders(tmp_path))
    add_root("zoo", kind="MlpTiny", **folders(tmp_path))
    refused("has roots of ConvTiny, MlpTiny; name one: --class", kind=None)
    second = add_root("zoo", root=JOINT, kind="ConvTiny", **folders(tmp_path))
    assert second.agent.name == f"{JOINED}_2"
    with Store.open(tmp_path / "runs") as store:
        options = System.open(store, "zoo").agent(JOINED).settings["options"]
        assert [one["name"] for one in options["together"]] == ["digits_parity", "digits"]
        assert options["begins"] == ROOT


def test_tables_have_none(tmp_path: Path) -> None:
    for name in ("first", "second"):
        file = tmp_path / f"{name}.csv"
        rows = "\n".join(f"{number},{number % 7},{'ab'[number % 2]}" for number in range(60))
        file.write_text(f"x,y,label\n{rows}\n")
    create_system("zoo", kind="MlpTiny", **folders(tmp_path))
    for name in ("first", "second"):
        add_task("zoo", name, data=tmp_path / f"{name}.csv", **folders(tmp_path))
    with pytest.raises(UsageError, match="rows of a table have columns of their own"):
        add_root("zoo", root=JOINT, kind="MlpTiny", **folders(tmp_path))


def test_texts_train_one_together_too(tmp_path: Path) -> None:
    small = {**SETTINGS, "root": {"structure": {"width": 8, "hidden": 8}}}
    create_system("zoo", kind="TextTiny", overrides=small, **folders(tmp_path))
    for name, words in {"first": "ab", "second": "cd"}.items():
        rows = "\n".join(f"{words[number % 2]} {number},{words[number % 2]}" for number in range(80))
        (tmp_path / f"{name}.csv").write_text(f"text,label\n{rows}\n")
        add_task("zoo", name, data=tmp_path / f"{name}.csv", **folders(tmp_path))
    made = add_root("zoo", root=JOINT, overrides={"training": {"steps": 4}}, **folders(tmp_path))
    ran(tmp_path)
    found = offers(tmp_path)
    shared = blocks_of(found[made.agent.name])
    for name in ("first", "second"):
        assert shared < {part.id for part in found[f"TextTiny~{name}"].components}


def test_the_command_says_what_comes_next(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made(tmp_path, joined=False)
    capsys.readouterr()
    command = ["extend", "create", "zoo", "--beside", "--root", "joint"]
    assert run([*command, "--store", str(tmp_path / "runs")]) == 0
    told = capsys.readouterr()
    assert f"root {JOINED}" in told.out
    assert "Next: evodevo extend run zoo --store" in told.out + told.err


def test_a_third_task_is_told_of_it_and_none_where_there_is_one_or_can_be_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = ["--store", str(tmp_path / "runs")]

    def told(*task: str) -> str:
        assert run(["extend", "add", "zoo", *task, *store]) == 0
        said = capsys.readouterr()
        return " ".join((said.out + said.err).split())

    create_system("zoo", kind="ConvTiny", root="random_init", **folders(tmp_path))
    assert "together" not in told("digits")
    assert "together" not in told("digits_parity")
    proposal = "3 tasks could train one root together, and share it: evodevo extend create zoo --beside --root joint"
    assert proposal in told("digits_rotated", "--rotate", "3")
    add_root("zoo", root=JOINT, kind="ConvTiny", **folders(tmp_path))
    assert "together" not in told("digits_low", "--only", "0,1")
    create_system("tables", kind="MlpTiny", **folders(tmp_path))
    rows = "\n".join(f"{number},{number % 7},{'ab'[number % 2]}" for number in range(60))
    (tmp_path / "rows.csv").write_text(f"x,y,label\n{rows}\n")
    for name in ("first", "second", "third"):
        made = add_task("tables", name, data=tmp_path / "rows.csv", **folders(tmp_path))
        assert made[0].together == []

"""Systems from a user's words: what is recorded, and that nothing is where something cannot be used."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from evodevo.errors import DataError, DiskFullError, EvodevoError, NotFoundError, UsageError
from evodevo.multitask.agents.multipath import MultipathOptions
from evodevo.multitask.hyperparameters import singlepath_hyperparameters
from evodevo.multitask.paths.vision.kind import VISION
from evodevo.multitask.recipes.multipath import variants
from evodevo.multitask.run import create as extending
from evodevo.multitask.run import run as extend_running
from evodevo.multitask.run.create import add_root, add_task, create_system, withdraw
from evodevo.multitask.run.remains import remains_of
from evodevo.multitask.run.run import run_system
from evodevo.multitask.settings import AgentSettings
from evodevo.multitask.system import System
from evodevo.settings import validate
from evodevo.storage import Store
from evodevo.storage.systems.base import AgentRow
from evodevo.testing.multitask.paths import ROOT, SIZES, PathTrainer, executor_of, told

CYCLE = {"samples": 4, "generation_size": 2}


@pytest.fixture(scope="session")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with a system that has a root and no task; one with two tasks, made of the digits; what is prepared."""
    place = tmp_path_factory.mktemp("extending")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(place / "cache"))
        for name in ("folder", "busy"):
            create_system("zoo", kind="VitTiny", overrides={"cycle": CYCLE, "root": ROOT}, store=place / name)
        add_task("zoo", "digits", store=place / "busy")
        add_task("zoo", "digits_parity", question="parity", store=place / "busy")
    return place


@pytest.fixture(autouse=True)
def cache(stores: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(stores / "cache"))


@pytest.fixture
def folder(stores: Path, tmp_path: Path) -> Path:
    """A system with a root and no task."""
    return Path(shutil.copytree(stores / "folder", tmp_path / "runs"))


@pytest.fixture
def busy(stores: Path, tmp_path: Path) -> Path:
    """With two tasks."""
    return Path(shutil.copytree(stores / "busy", tmp_path / "runs"))


def work(folder: Path, **more: Any) -> extend_running.RunSummary:
    """Agents run; nothing is trained."""
    with Store.open(folder) as store:
        return run_system("zoo", executor=executor_of(PathTrainer(store)), store=folder, **more)


def names(folder: Path, system: str = "zoo") -> list[str]:
    with Store.open(folder, "ro") as store:
        return [one.name for one in System.open(store, system).agents()]


def images(folder: Path, classes: dict[str, int], side: int = 6) -> Path:
    """A folder of classes, so many images each."""
    chance = np.random.default_rng(5)
    for name, count in classes.items():
        (folder / name).mkdir(parents=True)
        for number in range(count):
            pixels = chance.integers(0, 256, (side, side, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(folder / name / f"{number}.png")
    return folder


# Create


@pytest.mark.parametrize(
    ("change", "error", "says"),
    [
        ({"root": "randm_init"}, UsageError, "random_init"),
        ({"root": "random_init:digits"}, UsageError, "pretrain:NAME"),
        ({"root": "pretrain:mnist"}, UsageError, "no data"),
        ({"root": "pretrain:a~b"}, UsageError, "name of a task"),
        ({"root": "checkpoint:nowhere"}, NotFoundError, "nowhere"),
        ({"root": "checkpoint:."}, EvodevoError, "config"),
        ({"root": "checkpoint:bert"}, UsageError, "bert"),
        ({"data": "somewhere"}, UsageError, "pretrain"),
        ({"kind": "VitTiny2"}, UsageError, "VitTiny"),
        ({"kind": "MultiVitTiny"}, UsageError, "root"),
        ({"overrides": {"training": {"validation": 3}}}, UsageError, "validations"),
        ({"overrides": {"cycles": {}}}, UsageError, "cycle"),
        ({"overrides": {"root": {"structure": {"width": 8, "heads": 3}}}}, UsageError, "heads"),
        ({"overrides": {"root": {"hyperparameters": {"num_layer": {}}}}}, UsageError, "num_layer"),
        ({"overrides": {"root": {"cycle": {"samples": 2}}}}, UsageError, "one child"),
        ({"overrides": {"root": 3}}, UsageError, "table"),
        ({"overrides": {"packages": ["nobody-has-this"]}}, EvodevoError, "nobody-has-this"),
    ],
    ids=str,
)
def test_a_root_that_cannot_be_leaves_no_system(
    change: dict[str, Any], error: type[Exception], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bert").mkdir()
    (tmp_path / "bert" / "config.json").write_text('{"model_type": "bert", "hidden_size": 8}')
    with pytest.raises(error, match=says):
        create_system("zoo", store=tmp_path / "runs", **{"kind": "VitTiny", **change})
    assert not (tmp_path / "runs").exists()


def test_what_was_killed_before_its_root_is_gone_on_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(*anything: Any, **more: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, Store.open(tmp_path / "runs") as store:
        System.create(store, "zoo", seed=4)
        patch.setattr(System, "add_root", killed)
        with pytest.raises(KeyboardInterrupt):
            create_system("zoo", kind="VitTiny", seed=4, store=tmp_path / "runs")
    with pytest.raises(UsageError, match="already"):  # of another seed it would be another system
        create_system("zoo", kind="VitTiny", seed=5, store=tmp_path / "runs")
    create_system("zoo", kind="VitTiny", seed=4, store=tmp_path / "runs")
    assert names(tmp_path / "runs") == ["VitTiny~root_model~random_init"]


@pytest.mark.parametrize(("kind", "rate"), [("VitTiny", 0.2), ("VitT3", 0.1)])
def test_small_transformers_of_a_new_system_learn_at_a_rate_for_random_weights(
    tmp_path: Path, kind: str, rate: float
) -> None:
    def tuned(agent: AgentRow) -> object:
        given = agent.settings["options"].get("hyperparameters", {}).get("opt_lr", {})
        return given.get("default", singlepath_hyperparameters("ti3").by_key["opt_lr"].default)

    own = {"root": {"hyperparameters": {"opt_lr": {"values": [0.01, 0.05], "default": 0.05}}}}
    for name, overrides, wanted in (("usual", {}, rate), ("own", own, 0.05), ("published", {"version": "v4b"}, 0.02)):
        made = create_system(name, kind=kind, overrides=overrides, store=tmp_path / "runs")
        (agent,) = add_task(name, "digits", store=tmp_path / "runs")
        assert [tuned(one.agent) for one in (made, agent)] == [wanted] * 2, name
    with Store.open(tmp_path / "runs") as store:
        system = System.open(store, "usual")
        system.run([made for made in system.agents() if made.settings["root"]], 1, executor_of(PathTrainer(store)))
        (root,) = system.view().offers.values()
        assert root.path.hparams["opt_lr"] == rate
        # A root that was recorded without the rate has the one that it was recorded under.
        earlier = System.create(store, "earlier")
        earlier.add_root(kind, "random_init", AgentSettings(classes=0))
        earlier.run(earlier.agents(), 1, executor_of(PathTrainer(store)))
        (root,) = earlier.view().offers.values()
        assert root.path.hparams["opt_lr"] == 0.02
    (later,) = add_task("earlier", "digits", store=tmp_path / "runs")
    assert tuned(later.agent) == 0.02, "an agent learns as its root does"


def test_a_pretrained_root_is_called_after_its_task(tmp_path: Path) -> None:
    made = create_system("zoo", root="pretrain:digits", kind="VitTiny", store=tmp_path / "runs")
    assert made.agent.name == "VitTiny~root_model~digits"
    assert made.agent.settings["classes"] == 10
    assert sum(made.samples.values()) == 1797
    assert made.agent.settings["training"]["most_steps"] == 20_000, "until validation is flat"


@pytest.mark.parametrize(
    "own",
    [
        {"root": {"training": {"most_between": 100}}},
        {"training": {"least_between": 100}},
        {"root": {"training": {"steps": 100}}},
        {"version": "v4b"},
    ],
)
def test_a_root_whose_course_is_given_keeps_it(tmp_path: Path, own: dict[str, Any]) -> None:
    made = create_system("zoo", root="pretrain:digits", kind="VitTiny", overrides=own, store=tmp_path / "runs")
    assert "most_steps" not in made.agent.settings["training"]


@pytest.mark.slow
def test_a_system_may_have_roots_of_several_classes(busy: Path) -> None:
    own = {"task": {"source": "text_labels"}}
    made = add_root("zoo", root="pretrain:topics", kind="TextTiny", overrides=own, store=busy)
    assert made.agent.name == "TextTiny~root_model~topics"
    assert made.agent.settings["modalities"] == ["tokens:bytes"]
    (more,) = add_task("zoo", "digits_more", store=busy)
    assert more.agent.name == "VitTiny~digits_more", "the only class of a root that reads images"
    (texts,) = add_task("zoo", "topics", source="text_labels", store=busy)
    assert (texts.agent.name, texts.agent.settings["classes"]) == ("TextTiny~topics", 20)
    rows = busy.parent / "rows.csv"
    rows.write_text("number,label\n" + "".join(f"{number},{'ab'[number % 2]}\n" for number in range(60)))
    with pytest.raises(UsageError, match=r"hold vector:1; those of MlpBase, MlpSmall, MlpTiny can.*--beside"):
        add_task("zoo", "rows", data=rows, overrides={"task": {"options": {"vectors": ["number"]}}}, store=busy)
    foreign = {"task": {"options": {"tokenizer": "bpe"}}}
    with pytest.raises(UsageError, match="no class can"):
        add_task("zoo", "foreign", source="text_labels", overrides=foreign, store=busy)
    for change, says in (
        ({"root": "pretrain:topics", "kind": "TextTiny", "overrides": own}, "already"),
        ({"root": "pretrain:topics", "kind": "VitTiny", "overrides": own}, "tokens"),
        ({"kind": "VitTiny"}, "already"),
    ):
        before = names(busy)
        with pytest.raises(UsageError, match=says):
            add_root("zoo", store=busy, **change)
        assert names(busy) == before
    add_root("zoo", root="random_init", kind="ConvTiny", store=busy)
    with pytest.raises(UsageError, match=r"VitTiny, ConvTiny.*choose one: --class"):
        add_task("zoo", "digits_other", store=busy)
    (other,) = add_task("zoo", "digits_other", kind="ConvTiny", store=busy)
    assert other.agent.name == "ConvTiny~digits_other"


# Add


def test_a_task_is_recorded_with_all_that_is_asked_later(folder: Path) -> None:
    (made,) = add_task("zo", "digits_odd", question="parity", rotate=1, only=["3", "4", "5"], store=folder)
    settings = made.agent.settings
    assert made.agent.name == "VitTiny~digits_odd"
    assert settings["class_names"] == ["odd", "even"]  # rotated by one
    assert settings["classes"] == 2
    assert settings["modalities"] == ["image"]
    assert settings["inputs"][0]["height"] == 8
    assert settings["task"]["only"] == ["3", "4", "5"]
    assert len(settings["task_key"]) == 64
    rate = VISION.new_roots["tiny"]["hyperparameters"]
    assert settings["options"]["hyperparameters"] == {**rate, **SIZES}  # as the root's
    assert settings["cycle"]["samples"] == 4  # as the system's


def test_settings_of_an_agent_stand_above_those_of_its_system_and_root(folder: Path) -> None:
    own = {
        "cycle": {"samples": 2},
        "training": {"validations": 3},
        "task": {"batch": 64},
        "hyperparameters": {"num_layers": {"values": [0, 1], "default": 1}},
        "builds_on": ["*~root_model~*"],
        "multi": {"most_paths": 2},
    }
    single, multi = add_task("zoo", "digits", multi=True, overrides=own, store=folder)
    settings = single.agent.settings
    assert (settings["cycle"]["samples"], settings["cycle"]["generation_size"]) == (2, 2)
    assert settings["training"]["validations"] == 3
    assert settings["task"]["batch"] == multi.agent.settings["task"]["batch"] == 64
    rate = VISION.new_roots["tiny"]["hyperparameters"]
    assert settings["options"]["hyperparameters"] == {**rate, **SIZES, "num_layers": {"values": [0, 1], "default": 1}}
    assert settings["builds_on"] == ["*~root_model~*"]
    assert multi.agent.name == "MultiVitTiny~digits"
    assert multi.agent.settings["options"] == {
        "most_paths": 2,
        "child": {"supports": {"sampler": {"kind": "probed"}}},
    }


def test_data_are_found_from_anywhere(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    images(tmp_path / "pets", {"cat": 12, "dog": 12})
    monkeypatch.chdir(tmp_path)
    (made,) = add_task("zoo", "pets", data="pets", store=folder)
    assert made.agent.settings["task"]["data"] == str(tmp_path / "pets")


CLASSES = {"cat": 12, "dog": 12}


def unreadable(folder: Path) -> None:
    (images(folder, CLASSES) / "cat" / "broken.png").write_bytes(b"no image")


def mislabelled(folder: Path) -> None:
    Image.new("L", (6, 6)).save(images(folder, CLASSES) / "stray.png")


def only_in_test(folder: Path) -> None:
    images(folder / "train", CLASSES)
    images(folder / "test", {**dict.fromkeys(CLASSES, 3), "fox": 3})


def unnamed(folder: Path) -> None:
    folder.mkdir()
    for split in ("train", "test"):
        np.savez(folder / f"{split}.npz", x=np.zeros((20, 4, 4), np.uint8), y=np.arange(20) % 3)
    (folder / "classes.json").write_text('["a", "b"]')


def good(folder: Path) -> None:
    images(folder, CLASSES)


@pytest.mark.parametrize(
    ("make", "given", "says"),
    [
        (unreadable, {}, "broken.png"),
        (mislabelled, {}, "stray.png"),
        (only_in_test, {}, "fox"),
        (unnamed, {}, "label 2 has no name"),
        (lambda folder: images(folder, {"cat": 12}), {}, "two"),
        (lambda folder: None, {}, "mine"),
        (good, {"data": None}, "no data"),
        (good, {"data": None, "source": "pictures"}, "images"),
        (good, {"data": None, "source": "text_labels", "kind": "VitTiny"}, "tokens"),
        (good, {"kind": "VitT3"}, "VitTiny"),
        (good, {"kind": "VitTine"}, "VitTiny"),
        (good, {"overrides": {"task": {"batches": 3}}}, "batch"),
        (good, {"overrides": {"task": {"data": "x"}}}, "--data"),
    ],
    ids=lambda value: value.__name__ if callable(value) else str(value),
)
def test_data_that_cannot_be_used_leave_nothing(
    make: Callable[[Path], Any], given: dict[str, Any], says: str, folder: Path, tmp_path: Path
) -> None:
    make(tmp_path / "mine")
    with pytest.raises((UsageError, DataError, NotFoundError), match=says):
        add_task("zoo", "mine", store=folder, **{"data": tmp_path / "mine", **given})
    assert names(folder) == ["VitTiny~root_model~random_init"]


@pytest.mark.parametrize(
    ("name", "more", "says"),
    [
        ("digits", {}, "already"),
        ("digits", {"overrides": {"cycle": {"samples": 1}}}, "already"),
        ("digits~two", {}, "name of a task"),
        ("", {}, "name of a task"),
        ("root_model/digits", {}, "roots"),
        ("digits_new", {"overrides": {"options": {"x": 1}}}, "options"),
        ("digits_new", {"overrides": {"training": {"clips": 1}}}, "clip"),
        ("digits_new", {"overrides": {"hyperparameters": {"opt_lr": {"values": [1], "default": 2}}}}, "opt_lr"),
        ("digits_new", {"multi": True, "overrides": {"multi": {"structure": {"x": 1}}}}, "x"),
        ("digits_new", {"only": ["3"]}, "two"),
        ("digits_new", {"only": ["3", "11"]}, "11"),
    ],
    ids=str,
)
def test_a_task_that_cannot_be_leaves_nothing(name: str, more: dict[str, Any], says: str, busy: Path) -> None:
    before = names(busy)
    with pytest.raises(UsageError, match=says):
        add_task("zoo", name, store=busy, **more)
    assert names(busy) == before


def test_another_class_takes_the_data_that_a_task_has(busy: Path) -> None:
    with pytest.raises(UsageError, match="leave the data out"):
        add_task("zoo", "digits", kind="MultiVitTiny", question="parity", store=busy)
    (made,) = add_task("zoo", "digits", kind="MultiVitTiny", store=busy)
    with Store.open(busy, "ro") as store:
        single = System.open(store, "zoo").agent("VitTiny~digits").settings
    shared = ("task", "task_key", "classes", "class_names", "inputs")
    assert {key: made.agent.settings[key] for key in shared} == {key: single[key] for key in shared}


# Run


@pytest.mark.slow
def test_agents_that_combine_paths_come_where_they_are_missing_and_may_go_alone(busy: Path) -> None:
    ended = work(busy, agents=["single", "multi"], tasks=["digits"])
    assert [one.agent for one in ended.agents] == ["VitTiny~digits", "MultiVitTiny~digits"]
    assert [one.cycles for one in ended.agents] == [1, 1]
    assert names(busy)[-1] == "MultiVitTiny~digits"
    assert work(busy, agents=["multi"], tasks=["digits"]).agents == ended.agents[1:], "it is added once"
    assert withdraw("zoo", "MultiVitTiny~digits", store=busy) == ["MultiVitTiny~digits"]
    with Store.open(busy) as store:
        assert System.open(store, "zoo").best("digits").path.agent == "VitTiny~digits"


@pytest.mark.slow
def test_what_was_stopped_goes_on_to_the_same_system(stores: Path, tmp_path: Path) -> None:
    systems, sessions, children = [], [], 0

    def hear(kind: str, facts: dict[str, Any]) -> None:
        nonlocal children
        children += kind == "child"
        if kind == "child" and children % stop_after == 0:
            sessions[-1].stop()

    for stop_after in (100, 5):
        sessions.clear()
        folder = Path(shutil.copytree(stores / "busy", tmp_path / f"{stop_after}"))
        while work(folder, agents=["single", "multi"], listener=hear, on_start=sessions.append).state != "finished":
            pass
        with Store.open(folder) as store:
            systems.append(told(System.open(store, "zoo")))
    assert len(sessions) > 3
    assert systems[0] == systems[1]


@pytest.mark.slow
def test_a_wish_to_stop_from_before_the_run_counts(busy: Path) -> None:
    assert work(busy, on_start=lambda session: session.stop()).state == "interrupted"
    with Store.open(busy) as store:
        orphan = store.blobs.put_bytes(b"nobody's")
        os.utime(store.blobs.path(orphan), (0, 0))
    assert work(busy).state == "finished"
    with Store.open(busy) as store:
        assert orphan not in set(store.blobs.digests()), "a run collects at its end what nothing holds"


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"agents": ["singel"]}, "single"),
        ({"agents": ["VitTiny~digit"]}, "VitTiny~digits"),
        ({"tasks": ["digit"]}, "digits"),
        ({"cycles": 0}, "1 cycle"),
        ({"workers": 0}, "1 worker"),
        ({"agents": ["VitTiny~digits"], "tasks": ["digits_parity"]}, "nobody"),
    ],
    ids=str,
)
def test_an_unknown_agent_is_named_with_the_nearest(more: dict[str, Any], says: str, busy: Path) -> None:
    with pytest.raises(UsageError, match=says):
        work(busy, **more)


def test_a_system_without_tasks_says_what_comes_next(folder: Path) -> None:
    with pytest.raises(UsageError, match="evodevo extend add zoo"):
        work(folder)


# Withdraw


@pytest.mark.slow
def test_a_withdrawn_task_is_offered_no_more_and_others_stay(busy: Path) -> None:
    work(busy, agents=["single", "multi"], tasks=["digits"])
    work(busy)
    with Store.open(busy) as store:
        system = System.open(store, "zoo")
        other, before, gone = system.best("digits_parity"), system.view(), ["VitTiny~digits", "MultiVitTiny~digits"]
        remains = remains_of(before, gone)
        assert withdraw("zoo", "digits", store=busy) == gone
        system = System.open(store, "zoo")
        parts = {part.id: part.parameters for name in gone for part in before.offers[name].components}
        users = {part: system.view().locks.get(part, frozenset()) for part in parts}
        used = {part for part in parts if users[part]}
        assert (remains.used, remains.unused) == (len(used), len(parts) - len(used))
        assert remains.used_parameters == sum(parts[part] for part in used)
        assert remains.used_parameters + remains.unused_parameters == sum(parts.values())
        assert remains.users == {
            name: count for name in system.view().offers if (count := sum(name in users[part] for part in used))
        }
        with pytest.raises(NotFoundError):
            system.best("digits")
        assert system.best("digits_parity").components == other.components
    for call, says in (
        (lambda: withdraw("zoo", "digits", store=busy), "already"),
        (lambda: work(busy, agents=["VitTiny~digits"], cycles=2), "withdrawn"),
        (lambda: work(busy, tasks=["digits"], cycles=2), "withdrawn"),
        (lambda: add_task("zoo", "digits", store=busy), "another name"),
    ):
        with pytest.raises(UsageError, match=says):
            call()
    assert [one.agent for one in work(busy, cycles=2).agents] == ["VitTiny~digits_parity"]


def test_what_is_not_there_cannot_be_withdrawn(busy: Path) -> None:
    with pytest.raises(NotFoundError, match="digits_parity"):
        withdraw("zoo", "digit", store=busy)
    with pytest.raises(NotFoundError, match="zoo"):
        withdraw("zebra", "digits", store=busy)


def test_recipes_keep_their_names(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="recipe"):
        extending.create_system("backbone.demo", store=tmp_path / "runs")


def test_what_nothing_holds_goes_where_the_disk_is_full(busy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Store.open(busy) as store:
        litter = store.blobs.path(store.blobs.put_bytes(b"nobody's"))
        os.utime(litter, (0, 0))

    def full(system: System, *agents: Any, **more: Any) -> None:
        raise DiskFullError("no space left")

    monkeypatch.setattr(System, "run", full)
    with pytest.raises(DiskFullError):
        work(busy)
    assert not litter.exists()


def test_supports_of_what_a_user_adds_are_drawn_by_probes_unless_he_says_otherwise(tmp_path: Path) -> None:
    folder = tmp_path / "runs"
    create_system("zoo", kind="VitTiny", store=folder)

    def sampler(agent: AgentRow) -> str:
        options = validate(MultipathOptions, agent.settings["options"], what="options")
        return options.child.supports.sampler.kind

    own = {"multi": {"child": {"supports": {"sampler": {"kind": "uniform"}, "exclude": []}}}}
    _, usual = add_task("zoo", "digits", multi=True, store=folder)
    _, few = add_task("zoo", "digits_few", multi=True, few_labels=True, store=folder)
    _, control = add_task("zoo", "digits_low", multi=True, overrides=own, store=folder)
    _, published = add_task("zoo", "digits_high", multi=True, overrides={"version": "v4b"}, store=folder)
    found = [sampler(one.agent) for one in (usual, few, control, published)]
    assert found == ["probed", "probed", "uniform", "uniform"]
    add_task("zoo", "digits_odd", store=folder)
    (alone,) = add_task("zoo", "digits_odd", kind="MultiVitTiny", store=folder)
    assert sampler(alone.agent) == "probed"
    with Store.open(folder) as store:  # one of a recipe, or of an earlier version, keeps what it is recorded with
        made = System.open(store, "zoo").add_agent("MultiVitTiny", "earlier", AgentSettings(classes=2))
    assert sampler(made) == "uniform"


def test_settings_for_few_labels_are_those_of_the_measured_row_under_a_users_own(tmp_path: Path) -> None:
    folder = tmp_path / "runs"
    create_system("zoo", kind="ConvTiny", store=folder)
    few = {"task": {"few": {"train": 20, "validation": 10}}}
    single, multi = add_task("zoo", "digits", multi=True, few_labels=True, overrides=few, store=folder)
    (measured,) = [one for one in variants("digits_even") if one.name == "main_dropout"]
    assert single.samples == {"train": 200, "validation": 100, "test": single.samples["test"]}
    for agent in (single.agent, multi.agent):
        assert agent.settings["training"]["objective"] == "likelihood"
    options = multi.agent.settings["options"]
    assert options["structure"]["main_dropout"] == measured.structure.main_dropout == 0.5
    assert {name: options[name] for name in measured.options} == measured.options
    own = {**few, "training": {"objective": "accuracy"}, "multi": {"most_paths": 4}}
    single, multi = add_task("zoo", "digits_low", multi=True, few_labels=True, overrides=own, store=folder)
    assert single.agent.settings["training"].get("objective", "accuracy") == "accuracy"
    assert multi.agent.settings["options"]["most_paths"] == 4
    assert multi.agent.settings["training"]["objective"] == "likelihood"

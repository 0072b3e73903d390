"""Texts beside images in one system: each family keeps to its own paths, and what is published stays as it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from evodevo.errors import UsageError
from evodevo.execution.serial import SerialExecutor
from evodevo.multitask.agent import AGENTS, readable
from evodevo.multitask.agents.multipath import MultipathAgents
from evodevo.multitask.paths.kinds import structure_of
from evodevo.multitask.paths.text.spec import TextStructure
from evodevo.multitask.run.create import add_task, create_system
from evodevo.multitask.settings import AgentSettings, SystemSettings
from evodevo.multitask.system import System
from evodevo.storage import Store
from evodevo.testing.multitask.paths import ROOT, SIZES, PathTrainer, executor_of, small

TEXT_SIZES = {"num_layers": {"values": [0, 1], "default": 1}, "ds_length": {"values": [16, 32], "default": 32}}
TEXT_ROOT = {"structure": {"width": 8, "heads": 2, "hidden": 8}, "hyperparameters": TEXT_SIZES}
BYTES = ("tokens:bytes",)


def mixed(store: Store) -> System:
    """Two roots, two tasks of texts, one of images; nothing has run."""
    system = System.create(store, "both", seed=2, settings=SystemSettings(cycle=small(4, 2)))
    system.add_root("VitTiny", "random_init", AgentSettings(classes=0, options=ROOT))
    system.add_root("TextTiny", "random_init", AgentSettings(classes=0, options=TEXT_ROOT))
    own: dict[str, Any] = {"options": {"hyperparameters": TEXT_SIZES}, "modalities": BYTES}
    system.add_agent("TextTiny", "mails", AgentSettings(classes=3, **own))
    system.add_agent("TextTiny", "news", AgentSettings(classes=4, **own))
    system.add_agent("VitTiny", "digits", AgentSettings(classes=5, options={"hyperparameters": SIZES}))
    system.add_agent("MultiTextTiny", "mails", AgentSettings(classes=3, modalities=BYTES))
    return system


@pytest.fixture(scope="module")
def ran() -> System:
    """The same after two cycles."""
    store = Store.memory()
    system = mixed(store)
    agents = [one for one in system.agents() if not one.settings["root"]]
    system.run(agents, 2, executor_of(PathTrainer(store)))
    return system


@pytest.mark.slow
def test_each_family_leaves_the_paths_of_the_other_alone(ran: System) -> None:
    system, view = ran, ran.view()
    families = {name: {part.id.partition("~")[0] for part in one.components} for name, one in view.offers.items()}
    multi = "MultiTextTiny~mails"
    assert families.pop(multi) == {"MultiTextTiny"}
    assert all(made == {name.partition("~")[0]} for name, made in families.items()), "no component crosses over"
    assert {one.agent.partition("~")[0] for one in view.offers[multi].path.paths} == {"TextTiny"}
    for name, other in (("TextTiny~news", "VitTiny"), ("VitTiny~digits", "TextTiny")):
        row = system.agent(name)
        seen = readable(view, AGENTS.get(row.kind), AgentSettings(classes=1, modalities=BYTES))
        assert not any(one.startswith(other) for one in seen.offers)
    shared = [name for name, one in view.offers.items() if any(not p.id.startswith(name) for p in one.components)]
    assert shared, "somebody builds on the root"


def test_chance_changes_no_text_and_so_everything_about_it_can_be_kept(ran: System) -> None:
    for name, one in ran.view().offers.items():
        if "Text" in name:
            assert {key for key in one.path.hparams if key.startswith("ds_")} <= {"ds_length"}
    text, vision = AGENTS.get("MultiTextTiny"), AGENTS.get("MultiVitTiny")
    assert isinstance(text, MultipathAgents)
    assert isinstance(vision, MultipathAgents)
    assert not text.family.augments
    assert vision.family.augments


def test_a_task_of_its_own_subwords_is_read_by_nobody() -> None:
    system = mixed(Store.memory())
    foreign = AgentSettings(classes=3, modalities=(f"tokens:{64 * 'a'}",))
    agent = system.add_agent("TextTiny", "foreign", foreign)
    system.run([system.agent("TextTiny~mails")], 1, executor_of(PathTrainer(system.store)))
    seen = readable(system.view(), AGENTS.get("TextTiny"), foreign)
    assert not seen.offers
    missing = AGENTS.get("TextTiny").missing(agent, seen)
    assert missing is not None
    assert "TextTiny" in missing


def test_a_root_of_subwords_has_a_task() -> None:
    system = System.create(Store.memory(), "words")
    options = {"structure": {"tokenizer": "bpe", "vocabulary": 300}}
    with pytest.raises(UsageError, match="--root pretrain:NAME"):
        system.add_root("TextTiny", "random_init", AgentSettings(classes=0, options=options))
    root = AgentSettings(classes=3, options=options, modalities=BYTES)
    assert system.add_root("TextTiny", "pretrain", root, name="mails").settings["root"]


@pytest.mark.slow
def test_a_system_of_subwords_from_a_user_s_words_to_accuracies(tmp_path: Path) -> None:
    """Generated topics: a pretrained root, its tokenizer, another task, and a model that combines both."""
    folder, cache = tmp_path / "runs", tmp_path / "cache"
    samples = {"train": 300, "validation": 60, "test": 60}
    topics = {"samples": samples, "classes": 2, "clarity": 4.0, "own": 0.9, "other": 0.0}
    reading: dict[str, Any] = {"topics": topics, "length": 96}
    source = {"source": "text_labels", "batch": 16, "options": reading}
    create_system(
        "words",
        root="pretrain:first",
        kind="TextTiny",
        overrides={
            "cycle": {"samples": 2, "generation_size": 2},
            "training": {"validations": 2, "most_between": 300, "device": "cpu"},
            "root": {
                "task": source,
                "structure": {"tokenizer": "bpe", "vocabulary": 320, "width": 16},
                "hyperparameters": TEXT_SIZES,
            },
        },
        store=folder,
        cache_folder=cache,
    )
    other = {**source, "options": {**reading, "topics": {**topics, "seed": 4}}}
    made = add_task("words", "other", multi=True, overrides={"task": other}, store=folder, cache_folder=cache)
    assert [one.agent.name for one in made] == ["TextTiny~other", "MultiTextTiny~other"]
    assert all(tuple(one.agent.settings["modalities"]) == BYTES for one in made)
    with Store.open(folder) as store:
        system = System.open(store, "words")
        agents = [one for one in system.agents() if not one.settings["root"]]
        with SerialExecutor() as executor:
            assert system.run(agents, 1, executor, cache=str(cache)).state == "finished"
        offers = system.view().offers
        assert set(offers) == {"TextTiny~root_model~first", "TextTiny~other", "MultiTextTiny~other"}
        structure = structure_of(offers["TextTiny~other"].path)
        assert isinstance(structure, TextStructure)
        assert structure.tokenizer == "bpe"
        assert offers["TextTiny~other"].quality is not None
        assert offers["TextTiny~other"].quality > 0.5
        root = offers["TextTiny~root_model~first"].component("embedding")
        assert root is not None
        assert store.blobs.get(root.digest).find(b"evodevo.tokenizer/1") > 0
        assert store.check(deep=True).ok

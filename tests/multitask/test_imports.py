"""Networks that were trained elsewhere, inside a system: held, offered, built on, and left as they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from evodevo.errors import NotFoundError, UsageError
from evodevo.execution.serial import SerialExecutor
from evodevo.multitask.agent import PublishedPath
from evodevo.multitask.agents.network import ImportOrigin
from evodevo.multitask.budgets.pace import paces
from evodevo.multitask.fork import fork
from evodevo.multitask.imports import import_network
from evodevo.multitask.paths.network.kind import NETWORK
from evodevo.multitask.settings import AgentSettings, SystemSettings
from evodevo.multitask.system import System
from evodevo.networks.saved import load_network
from evodevo.networks.spec import NetworkEnvelope
from evodevo.settings import validate
from evodevo.storage import Store
from evodevo.storage.blobs import FolderPool
from evodevo.tasks.inputs import InputSpec
from evodevo.testing.multitask.paths import ROOT, PathTrainer, executor_of, small
from fixtures.imports import H_MODEL, checkpoint_of
from fixtures.real_system import logits

WORDS = InputSpec("words", "tokens", length=16, vocabulary=256)
TEXTS: dict[str, Any] = {"task": "text_labels", "task_settings": {"tokenizer": "bytes", "length": 16}}
TRAINING = {"validations": 1, "most_between": 128, "device": "cpu"}


@pytest.fixture
def system(store: Store) -> System:
    return System.create(store, "home", seed=3, settings=SystemSettings(cycle=small(2, 2), training=TRAINING))


def imported(system: System, name: str = "one", pool: Any = None, seed: int = 0, **about: Any) -> PublishedPath:
    pool = pool or system.store.blobs
    return import_network(
        system, name, pool, ImportOrigin(run="r", weights=checkpoint_of(pool, H_MODEL, seed=seed, **about))
    )


def kinds(known: PublishedPath) -> set[str]:
    return {part.id.partition(":")[0] for part in known.components}


def test_an_import_is_offered_at_once_with_the_blobs_of_its_checkpoint(system: System) -> None:
    before = len(set(system.store.blobs.digests()))
    known = imported(system)
    agent = system.agent("Import~one")
    assert system.view().offers["Import~one"] == known
    assert [part.id for part in known.components] == ["Import~one:0", "Import~one:1"]
    assert len({part.digest for part in known.components}) == 1, "small parts share a blob"
    assert len(set(system.store.blobs.digests())) == before + 2, "the checkpoint's two blobs and no others"
    assert (known.path.classes, known.quality, known.path.task) == (0, None, "one")
    assert agent.settings["options"]["origin"]["run"] == "r"
    assert system.accounts() == {"Import~one": float(known.parameters)}
    with pytest.raises(NotFoundError):
        system.best("one")  # it answers no task
    assert system.store.check(deep=True).ok


def test_blobs_of_another_store_are_copied_and_stay_when_that_is_gone(system: System, tmp_path: Path) -> None:
    other = FolderPool(tmp_path / "elsewhere")
    known = imported(system, pool=other)
    for digest in list(other.digests()):
        other.remove(digest)
    path = NETWORK.freeze(known.path, {one.role: one.digest for one in known.components}, system.store.blobs, False)
    assert path.width == 8
    assert {one.digest for one in known.components} <= set(system.store.blobs.digests())


@pytest.mark.slow
def test_garbage_is_what_nobody_offers_or_uses_and_a_copy_of_the_system_has_the_rest(system: System) -> None:
    used, idle = imported(system, "used"), imported(system, "idle", seed=1)
    system.add_agent("Net", "task", AgentSettings(classes=3))
    system.withdraw("Import~idle")  # not the accuracy but the name decides: it is out of sight
    system.run([system.agent("Net~task")], 1, executor_of(PathTrainer(system.store)))
    child = system.view().offers["Net~task"]
    assert {part.id for part in child.components} & {part.id for part in used.components}, "it is built of the import"
    offers = [
        {name: [part.digest for part in one.components] for name, one in made.view().offers.items()}
        for made in (system, fork(system, "copy"))
    ]
    assert offers[0] == offers[1]
    system.withdraw("Import~used")
    system.store.gc(grace_seconds=0)
    held = set(system.store.blobs.digests())
    assert {part.digest for part in child.components} <= held
    assert not {part.digest for part in idle.components} & held
    assert system.store.check(deep=True).ok


@pytest.mark.slow
def test_children_share_parts_that_others_offer_and_add_a_norm_and_a_head(system: System) -> None:
    imported(system)
    system.add_agent("Net", "task", AgentSettings(classes=3))
    system.run([system.agent("Net~task")], 4, executor_of(PathTrainer(system.store)))
    child = system.view().offers["Net~task"]
    assert [part.role for part in child.components] == ["inputs", "core", "head_norm", "head"]
    assert child.component("head").id.startswith("Net~task:")
    rows = system.store.individuals(system.agent("Net~task").id)
    fates = {part["how"] for row in rows for part in row.details["parts"] if part["role"] in ("inputs", "core")}
    assert fates == {"reference", "clone"}
    assert child.flops == pytest.approx(system.view().offers["Import~one"].flops + 2 * 8 * 3)


def test_a_time_for_paths_that_begin_with_imports_wants_children_first(system: System) -> None:
    imported(system)
    agent = system.add_agent("Net", "task", AgentSettings(classes=3))
    with SerialExecutor() as executor, pytest.raises(UsageError, match="5000steps"):
        paces(system, [agent], executor, None)


@pytest.mark.slow
def test_each_agent_sees_the_imports_that_can_read_its_task(system: System) -> None:
    imported(system, "sees")
    imported(system, "reads", inputs=(WORDS,), **TEXTS)
    system.add_root("VitTiny", "random_init", AgentSettings(classes=0, options=ROOT))
    system.add_agent("VitTiny", "pictures", AgentSettings(classes=3))
    for task, modality in (("pictures", "image"), ("letters", "tokens:bytes")):
        system.add_agent("Net", task, AgentSettings(classes=3, modalities=(modality,)))
    forced = {"child": {"supports": {"first": "Import~sees"}}}
    system.add_agent("MultiVitTiny", "pictures", AgentSettings(classes=3, options=forced))
    system.add_agent("MultiNet", "letters", AgentSettings(classes=3, modalities=("tokens:bytes",)))
    agents = [one for one in system.agents() if not one.settings["root"]]
    system.run(agents, 1, executor_of(PathTrainer(system.store)))
    offers = system.view().offers
    assert kinds(offers["Net~pictures"]) == {"Import~sees", "Net~pictures"}
    assert kinds(offers["Net~letters"]) == {"Import~reads", "Net~letters"}
    assert kinds(offers["VitTiny~pictures"]) <= {"VitTiny~root_model~random_init", "VitTiny~pictures"}
    assert [one.agent for one in offers["MultiVitTiny~pictures"].path.paths][:2] == ["VitTiny~pictures", "Import~sees"]
    assert [one.agent for one in offers["MultiNet~letters"].path.paths][:2] == ["Net~letters", "Import~reads"]
    for row in system.store.individuals(system.agent("Net~letters").id):
        values = row.genome_envelope["genes"]["hparams"]
        assert values["ds_flip_left_right"] is False
        assert not any(one["key"].startswith("ds_") for one in row.details["story"]["plan"]["moves"])


@pytest.mark.slow
def test_who_finds_nothing_to_build_on_says_what_to_do(system: System) -> None:
    imported(system, "reads", inputs=(WORDS,), **TEXTS)
    system.add_agent("Net", "pictures", AgentSettings(classes=3))
    with pytest.raises(UsageError, match=r"needs a network that can read its samples.*extend import"):
        system.run([system.agent("Net~pictures")], 1, executor_of(PathTrainer(system.store)))


@pytest.mark.slow
def test_an_import_that_was_killed_goes_on(system: System, monkeypatch: pytest.MonkeyPatch) -> None:
    """When it is asked for again, or in the next run; what it took has its name."""

    class Killed(BaseException):
        pass

    def die(*args: Any, **more: Any) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(System, "run", die)
        for number, name in enumerate(("one", "next")):
            with pytest.raises(Killed):
                imported(system, name, seed=number)
    assert system.view().offers == {}
    with pytest.raises(UsageError, match="has an import 'one' already"):
        imported(system, seed=2)
    assert imported(system) == system.view().offers["Import~one"]
    system.add_agent("Net", "digits", AgentSettings(classes=10))
    with SerialExecutor(evaluators={"path": PathTrainer(system.store)}) as executor:
        system.run([system.agent("Net~digits")], 1, executor)
    assert {"Import~next", "Net~digits"} <= set(system.view().offers)


def test_names_that_an_import_cannot_have(system: System) -> None:
    imported(system)
    system.add_agent("VitTiny", "taken", AgentSettings(classes=2))
    before = len(system.agents())
    for name, message in (("a~b", "no name of a task"), ("taken", "is a task"), ("one", "already"), ("", "no name")):
        with pytest.raises(UsageError, match=message):
            imported(system, name, seed=2)
    with pytest.raises(NotFoundError):
        import_network(system, "lost", system.store.blobs, ImportOrigin(weights="0" * 64))
    assert len(system.agents()) == before


def test_a_network_is_imported_once_while_it_is_offered(system: System) -> None:
    imported(system)
    with pytest.raises(UsageError, match="this network already, as Import~one"):
        imported(system, "two")
    system.withdraw("Import~one")
    assert imported(system, "two").path.agent == "Import~two"


def test_roots_of_nets_are_imports_and_imports_are_roots(system: System) -> None:
    with pytest.raises(UsageError, match="extend import"):
        system.add_root("Net", "random_init", AgentSettings(classes=0))
    options = imported(system).path.structure
    with pytest.raises(UsageError, match="extend import"):
        system.add_agent("Import", "two", AgentSettings(classes=2, options={"structure": options, "components": {}}))
    with pytest.raises(UsageError, match="are the parts of its network"):
        system.add_agent(
            "Import", "two", AgentSettings(classes=0, root=True, options={"structure": options, "components": {}})
        )


# Real training


@pytest.mark.slow
def test_imports_teach_and_answer_alike_for_ever(system: System, tmp_path: Path) -> None:
    store = system.store
    sees = imported(system, "sees")
    imported(system, "reads", inputs=(WORDS,), **TEXTS)
    few = {"samples": {"train": 400, "validation": 80, "test": 80}}
    topics = {"source": "text_labels", "options": {"tokenizer": "bytes", "length": 24, "topics": few}}
    system.add_root("VitTiny", "random_init", AgentSettings(classes=0, options=ROOT))
    system.add_agent(
        "VitTiny", "digits", AgentSettings(classes=10, options={"hyperparameters": ROOT["hyperparameters"]})
    )
    system.add_agent("Net", "digits", AgentSettings(classes=10))
    system.add_agent("Net", "topics", AgentSettings(classes=20, task=topics, modalities=("tokens:bytes",)))
    forced = {"child": {"supports": {"first": "Import~sees"}}}
    system.add_agent("MultiVitTiny", "digits", AgentSettings(classes=10, options=forced))
    system.add_agent("MultiNet", "topics", AgentSettings(classes=20, task=topics, modalities=("tokens:bytes",)))
    agents = [one for one in system.agents() if not one.settings["root"]]
    with SerialExecutor() as executor:
        system.run(agents, 1, executor, cache=str(tmp_path / "cache"))
        first = {name: one for name, one in system.view().offers.items() if one.path.classes}
        before = {name: logits(system, one, tmp_path) for name, one in first.items()}
        system.run(agents, 2, executor, cache=str(tmp_path / "cache"))
    assert set(before) == {one.name for one in agents}
    for name, one in first.items():
        assert torch.equal(logits(system, one, tmp_path), before[name]), name
    assert [one.agent for one in first["MultiVitTiny~digits"].path.paths][:2] == ["VitTiny~digits", "Import~sees"]
    assert store.check(deep=True).ok
    # The network itself is what it was before anybody built on it.
    weights = system.agent("Import~sees").settings["options"]["origin"]["weights"]
    network, _ = load_network(store.blobs, weights)
    part = NETWORK.freeze(sees.path, {one.role: one.digest for one in sees.components}, store.blobs, False)
    raw = {"image": torch.randint(0, 256, (5, 8, 8, 1), dtype=torch.uint8)}
    with torch.no_grad():
        assert torch.equal(part.path({str(part.path.reads): raw}), network.represent(raw).pooled)
    assert validate(NetworkEnvelope, sees.path.structure["genome"], what="genome").network == H_MODEL

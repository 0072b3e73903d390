"""Roots that were pretrained here, come from Hugging Face, or have layers of the library."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from evodevo import canonical
from evodevo.errors import DataError, EvaluationsFailedError, UsageError
from evodevo.execution.serial import SerialExecutor
from evodevo.multitask.evaluate import evaluate_root
from evodevo.multitask.measure import measure
from evodevo.multitask.paths.vision.checkpoint import checkpoint_structure
from evodevo.multitask.paths.weights import load_state
from evodevo.multitask.settings import AgentSettings
from evodevo.multitask.system import System
from evodevo.storage import Store
from fixtures.real_system import SIZES, STRUCTURE, TASKS, new_real_system, run_real

OWN = {"hyperparameters": SIZES}


def reached(system: System, name: str) -> set[str]:
    """Agents whose components a path shares."""
    return {part.id.rpartition(":")[0] for part in system.view().offers[name].components}


@pytest.mark.slow
def test_a_root_is_pretrained_on_a_task_and_another_task_builds_on_it(store: Store, tmp_path: Path) -> None:
    system = new_real_system(store, root=False, tasks={})
    options = {"structure": STRUCTURE, **OWN}
    root = system.add_root("VitTiny", "pretrain", AgentSettings(classes=10, options=options), name="digits")
    system.add_agent("VitTiny", "parity", AgentSettings(classes=2, task=TASKS["parity"][1], options=OWN))
    run_real(system, 1, tmp_path)
    known = system.view().offers[root.name]
    assert root.name == "VitTiny~root_model~digits"
    assert known.path.classes == 10
    assert known.quality is not None
    assert known.quality > 0.15, "it has learned something"
    assert known.component("head") is not None
    assert reached(system, "VitTiny~parity") > {"VitTiny~parity"}, "the frozen part is the root's"
    with SerialExecutor() as executor:
        accuracy = measure(system, system.best("parity"), executor, cache=str(tmp_path / "cache"))
    assert accuracy > 0.4
    # A root rests: more cycles leave it as it is.
    run_real(system, 2, tmp_path)
    assert system.view().offers[root.name] == known
    # It has a head of its own task, so it is no best path of that task: nobody asked for its answers.
    assert [one.kind for one in system.agents(tasks=["digits"])] == []


def checkpoint(folder: Path, **config: Any) -> Path:
    transformers = pytest.importorskip("transformers", reason="the extra hf is not installed")
    sizes = {"image_size": 8, "patch_size": 4, "hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 24}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = transformers.ViTModel(transformers.ViTConfig(**{**sizes, "num_hidden_layers": 2, **config}))
    transformers.utils.logging.disable_progress_bar()
    model.save_pretrained(folder)
    transformers.utils.logging.enable_progress_bar()
    return folder


@pytest.mark.slow
def test_a_root_from_a_checkpoint_is_what_transformers_saved_and_tasks_build_on_it(
    store: Store, tmp_path: Path
) -> None:
    folder = checkpoint(tmp_path / "vit")
    system = new_real_system(store, root=False)
    root = system.add_root(
        "VitTiny", "checkpoint", AgentSettings(classes=0, options={"checkpoint": str(folder), **OWN})
    )
    run_real(system, 1, tmp_path)
    known = system.view().offers[root.name]
    assert (known.path.structure["width"], known.path.hparams["num_layers"]) == (16, 2)
    part = known.component("encoderblock_1")
    assert part is not None
    ours = load_state(store.blobs, part.digest, part.role)
    from safetensors.torch import load_file

    theirs = load_file(folder / "model.safetensors")
    assert torch.equal(ours["outer.weight"], theirs["encoder.layer.1.output.dense.weight"])
    for task in TASKS:
        assert root.name in reached(system, f"VitTiny~{task}")
        assert system.best(task).path.structure["width"] == 16
    distinct = {part.id: part.parameters for one in system.view().offers.values() for part in one.components}
    assert sum(system.accounts().values()) == pytest.approx(sum(distinct.values()))


@pytest.mark.slow
def test_a_checkpoint_whose_shape_does_not_fit_is_one_clear_error_and_nothing_is_lost(
    store: Store, tmp_path: Path
) -> None:
    """Refused when it is added, or where the files were changed since, when it is made."""
    folder = checkpoint(tmp_path / "vit")
    system = new_real_system(store, root=False, tasks={"digits": TASKS["digits"]})
    options = {"checkpoint": str(folder), **OWN}
    deep = {**options, "hyperparameters": {**SIZES, "num_layers": {"values": [0, 1], "default": 1}}}
    with pytest.raises(UsageError, match=r"num_layers.*got 2"):
        system.add_root("VitTiny", "checkpoint", AgentSettings(classes=0, options=deep))
    with pytest.raises(UsageError, match="names its folder"):
        system.add_root("VitTiny", "random_init", AgentSettings(classes=0, options=options))
    odd = {**options, "hyperparameters": {**SIZES, "ds_image_size": {"values": [10], "default": 10}}}
    with pytest.raises(UsageError, match="patches of 4"):
        system.add_root("VitTiny", "checkpoint", AgentSettings(classes=0, options=odd))
    assert not [one for one in system.agents() if one.settings["root"]]
    system.add_root("VitTiny", "checkpoint", AgentSettings(classes=0, options=options))
    whole = (folder / "config.json").read_text()
    config = json.loads(whole)
    (folder / "config.json").write_text(json.dumps({**config, "intermediate_size": 20}))
    with pytest.raises((EvaluationsFailedError, UsageError), match=r"does not fit|shape"):
        run_real(system, 1, tmp_path)
    assert system.view().offers == {}
    (folder / "config.json").write_text(whole)
    run_real(system, 1, tmp_path)
    assert len(system.view().offers) == 2


@pytest.mark.slow
def test_a_checkpoint_that_was_replaced_while_it_was_asked_for_is_not_taken(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path / "vit", intermediate_size=32)
    structure = {**checkpoint_structure(str(folder)).model_dump(mode="json"), "hidden": 24}
    path = {"agent": "VitTiny~root_model~checkpoint", "number": 0, "task": "root_model/checkpoint", "classes": 0}
    request = {"path": {**path, "structure": structure}, "components": {}, "task": "root_model/checkpoint"}
    request |= {"root": "checkpoint", "checkpoint": str(folder), "blobs": str(tmp_path / "blobs")}
    with pytest.raises(DataError, match=r"'encoderblock_0' is of another shape\. Give the root"):
        evaluate_root(canonical.dumps(request).encode(), lambda message: None)


@pytest.mark.slow
def test_any_operator_may_be_a_layer_of_a_path(store: Store, tmp_path: Path) -> None:
    system = new_real_system(store, root=False, tasks={"digits": TASKS["digits"]})
    structure = {**STRUCTURE, "blocks": {"encoderblock_0": {"kind": "lstm"}}}
    system.add_root("VitTiny", "random_init", AgentSettings(classes=0, options={"structure": structure, **OWN}))
    run_real(system, 1, tmp_path)
    known = system.best("digits")
    assert known.path.structure["blocks"]["encoderblock_0"]["kind"] == "lstm"
    assert known.quality is not None
    assert store.check(deep=True).ok

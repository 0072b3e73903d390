"""Imported networks at work: they answer as they did where they were trained.

What learns, and that nothing else does: ``test_kinds.py``.
"""

from __future__ import annotations

from pathlib import Path as Folder
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from evodevo import canonical
from evodevo.backbone.space import BackboneSpace, unconnected
from evodevo.backbone.space_settings import BackboneSettings
from evodevo.errors import DataError, UsageError
from evodevo.module_zoo.modules.zoo import start_zoo
from evodevo.multitask.evaluate_settings import PathRequest
from evodevo.multitask.genome import Path
from evodevo.multitask.paths.built import FrozenPart, PathSamples
from evodevo.multitask.paths.network.imports import evaluate_import, read_import
from evodevo.multitask.paths.network.kind import NETWORK
from evodevo.multitask.paths.network.model import NetworkPath
from evodevo.multitask.paths.network.spec import NetworkStructure
from evodevo.multitask.paths.weights import count_parameters, load_state
from evodevo.multitask.training.values import DataValues
from evodevo.networks.saved import load_network
from evodevo.networks.spec import NetworkEnvelope, NetworkSpec
from evodevo.settings import merge, validate
from evodevo.storage.blobs import FolderPool
from evodevo.tasks.base import OutputSpec
from evodevo.tasks.in_memory import InMemoryTask
from evodevo.tasks.inputs import InputSpec
from evodevo.tasks.text.tokenizers import ByteTokenizer
from evodevo.testing.multitask.paths import answer_of
from evodevo.testing.networks import small_backbone
from evodevo.training import checkpoints
from evodevo.training.precision import decide
from fixtures.imports import DIGIT, H_MODEL, IMAGE, checkpoint_of

ZOO = {
    "width": 8,
    "extractor": {"blocks": 0},
    "modules": [one.model_dump(mode="json") for one in start_zoo(8)[:3]],
    "router": {"keys": "predictor", "top_k": 1},
}
STACK = {"width": 8, "layers": [{"kind": "transformer", "heads": 2}], "input_blocks": 0, "output_blocks": 1}
NETWORKS: dict[str, dict[str, Any]] = {
    "h_model": H_MODEL.model_dump(mode="json"),
    "h_model that halts": merge(
        H_MODEL.model_dump(mode="json"), {"structure": {"iterations": 3, "halting": {"rule": "kl"}}}
    ),
    "stack": {"kind": "stack", "structure": STACK},
    "ensemble": {"kind": "ensemble", "structure": {"members": [STACK, {**STACK, "width": 4}]}},
    "module_zoo": {"kind": "module_zoo", "structure": ZOO},
    "module_ensemble": {"kind": "module_ensemble", "structure": ZOO},
    "baseline": {"kind": "baseline", "structure": {"style": "concat_mlp", "width": 8, "extractor": {"blocks": 0}}},
}


def network_of(name: str) -> NetworkSpec:
    return validate(NetworkEnvelope, {"network": NETWORKS[name]}, what="a network").network


@pytest.fixture
def pool(tmp_path: Folder) -> FolderPool:
    return FolderPool(tmp_path / "blobs")


def images(height: int = 8, width: int = 8, channels: int = 1, name: str = "image") -> InMemoryTask:
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (6, height, width, channels), dtype=np.uint8)
    spec = InputSpec(name, "image", height=height, width=width, channels=channels)
    return InMemoryTask([spec], [DIGIT], {"test": {name: pixels, "digit/target": np.arange(6)}})


def texts(length: int, *, padded: int = 0) -> InMemoryTask:
    rng = np.random.default_rng(0)
    lengths = np.asarray([length, 3, 1, length - 1])
    ids = rng.integers(1, 256, (4, length))
    mask = np.arange(length + padded) < lengths[:, None]
    ids = np.where(mask, np.pad(ids, ((0, 0), (0, padded))), 0)
    spec = InputSpec("words", "tokens", length=length + padded, vocabulary=256)
    batch = {"words": ids, "words/mask": mask, "digit/target": np.arange(4)}
    return InMemoryTask([spec], [DIGIT], {"test": batch})


def path_of(structure: NetworkStructure, classes: int = 0, **more: Any) -> Path:
    plain = structure.model_dump(mode="json")
    values = {"agent": "Import~one", "number": 0, "task": "one", "classes": classes, "kind": "network_path", **more}
    return Path(**values, structure=plain)


def frozen(pool: FolderPool, weights: str) -> FrozenPart:
    found = read_import(pool, weights)
    return NETWORK.freeze(path_of(found.structure), found.digests, pool, False)


def look(part: FrozenPart, task: InMemoryTask) -> Tensor:
    samples = PathSamples(task, "test", np.arange(task.count("test")), DataValues(), 0, None)
    return part.path({str(part.path.reads): part.read(samples)})


@pytest.mark.parametrize("name", NETWORKS)
def test_an_import_says_what_the_network_itself_says_and_is_as_large_as_stated(pool: FolderPool, name: str) -> None:
    weights = checkpoint_of(pool, network_of(name), seed=3)
    before = set(pool.digests())
    part, found, task = frozen(pool, weights), read_import(pool, weights), images()
    assert set(pool.digests()) == before, "nothing is written"
    assert set(found.digests.values()) <= set(checkpoints.load(pool, weights).manifest.digests())
    network, _ = load_network(pool, weights)
    raw = torch.from_numpy(task.fetch("test", np.arange(6))["image"])
    with torch.no_grad():
        own = network.represent({"image": raw}).pooled
    assert torch.equal(look(part, task), own)
    assert part.width == own.shape[1]
    assert len(own.unique(dim=0)) == 6, "samples differ"
    model = NetworkPath(found.structure.changed(classes=4))
    counted = {role: count_parameters(part) for role, part in model.components().items()}
    assert counted == NETWORK.parameters(model.structure)
    assert found.modalities == ("image",)


def test_a_newborn_is_as_half_born_as_it_was(pool: FolderPool) -> None:
    name = NETWORKS["module_zoo"]["structure"]["modules"][0]["id"]
    plain = merge(NETWORKS["module_zoo"], {"structure": {"router": {"top_k": None}}})
    zoo = validate(NetworkEnvelope, {"network": plain}, what="a zoo").network
    answers = [
        look(frozen(pool, checkpoint_of(pool, zoo, newborns={"births": {name: birth}, "twins": {}})), images())
        for birth in (0.1, 1.0)
    ]
    assert not torch.equal(*answers)


@pytest.mark.parametrize("shape", [(12, 12, 3), (5, 9, 1)])
def test_images_of_any_size_become_bytes_of_its_own(pool: FolderPool, shape: tuple[int, int, int]) -> None:
    part = frozen(pool, checkpoint_of(pool, network_of("stack")))
    task = images(*shape, name="photograph")
    read = part.read(PathSamples(task, "test", np.arange(6), DataValues(), 0, None))
    assert read["image"].dtype == torch.uint8
    assert read["image"].shape == (6, 8, 8, 1)
    assert look(part, task).shape == (6, 8)
    assert float(read["image"].float().mean()) == pytest.approx(
        float(np.asarray(task.fetch("test", np.arange(6))["photograph"]).mean()), abs=12
    ), "it is the same picture"


def test_a_task_without_what_it_reads_is_refused(pool: FolderPool) -> None:
    part = frozen(pool, checkpoint_of(pool, network_of("stack")))
    with pytest.raises(UsageError, match=r"reads image as 'image'.*words \(tokens\)"):
        look(part, texts(4))


def backbone(pool: FolderPool) -> str:
    space = BackboneSpace(BackboneSettings.model_validate({"depth": 2, "dimensions": {"width": 64}}))
    genome = unconnected([1, 9])
    return checkpoints.save(
        pool,
        small_backbone(space, genome, 256, 1, tied=True),
        genome=space.to_json(genome),
        input_specification={
            "context_length": 16,
            "model": {"vocabulary": 256, "tied": True},
            "space": space.settings.model_dump(mode="json"),
        },
        attachments={"tokenizer": ByteTokenizer().to_bytes()},
    )


def test_a_language_model_reads_bytes_and_padding_says_nothing(pool: FolderPool) -> None:
    weights = backbone(pool)
    found, part = read_import(pool, weights), frozen(pool, weights)
    assert found.modalities == ("tokens:bytes",)
    assert NETWORK.flops(found.structure) > 0
    answer = look(part, texts(8))
    assert torch.allclose(look(part, texts(8, padded=5)), answer, atol=1e-5)
    model = NetworkPath(found.structure)
    for role, digest in found.digests.items():
        model.put(role, load_state(pool, digest, role))
    batch = texts(8).fetch("test", np.arange(4))
    with torch.no_grad():
        hidden = model.network.hidden(torch.from_numpy(batch["words"][1:2, :3]))
    assert torch.allclose(answer[1], hidden[0].mean(0), atol=1e-5), "the mean over its three tokens"


@pytest.mark.slow
def test_texts_are_cut_where_the_network_ends_and_what_is_optional_may_be_missing(pool: FolderPool) -> None:
    words = InputSpec("words", "tokens", length=6, vocabulary=256)
    about = {"task": "text_labels", "task_settings": {"tokenizer": "bytes", "length": 6}}
    part = frozen(pool, checkpoint_of(pool, network_of("stack"), (words,), **about))
    assert look(part, texts(9)).shape == (4, 8)
    read = part.read(PathSamples(texts(9), "test", np.arange(4), DataValues(), 0, None))
    assert read["words"].shape == read["words/mask"].shape == (4, 6)
    # What a network can do without may be missing.
    zoo = merge(NETWORKS["module_zoo"], {"structure": {"missing": True}})
    both = validate(NetworkEnvelope, {"network": zoo}, what="a zoo").network
    part = frozen(pool, checkpoint_of(pool, both, (IMAGE, words), **about))
    assert look(part, texts(6)).shape == (4, 8)
    assert look(part, images()).shape == (6, 8)
    assert NETWORK.needs(NETWORK.structure(part.structure, "it")) == frozenset()


def test_modes(pool: FolderPool) -> None:
    found = read_import(pool, checkpoint_of(pool, network_of("stack")))
    model = NetworkPath(found.structure.changed(classes=3)).requires_grad_(False)
    model.train()
    assert not any(one.training for one in model.network.modules()), "nothing of it learns"
    model.components()["layers.0"].requires_grad_(True)
    model.train()
    assert model.network.training
    assert all(one.training for one in model.components()["layers.0"].modules())
    assert not any(one.training for one in model.components()["inputs"].modules())


# What cannot be


def test_parts_are_never_made_anew(pool: FolderPool) -> None:
    found = read_import(pool, checkpoint_of(pool, network_of("stack")))
    parts = {role: {"digest": digest} for role, digest in found.digests.items()} | {"inputs": {"digest": None}}
    path = path_of(found.structure, 10).model_dump(mode="json")
    request = {"path": path, "components": parts, "task": "digits", "blobs": str(pool.folder)}
    with pytest.raises(DataError, match=r"'inputs'.*has no weights"):
        NETWORK.build(validate(PathRequest, request, what="request"), pool, images(), decide("cpu", "float32"))


def test_parts_of_another_network_are_refused(pool: FolderPool) -> None:
    found = read_import(pool, checkpoint_of(pool, network_of("stack")))
    wider = validate(NetworkEnvelope, {"network": merge(NETWORKS["stack"], {"structure": {"width": 12}})}, what="x")
    other = read_import(pool, checkpoint_of(pool, wider.network))
    with pytest.raises(DataError, match="does not fit as 'inputs'"):
        NETWORK.freeze(path_of(found.structure), other.digests, pool, False)


def test_two_inputs_of_one_kind_cannot_be_told_apart_elsewhere(pool: FolderPool) -> None:
    other = InputSpec("other", "image", height=8, width=8, channels=1)
    with pytest.raises(UsageError, match="several inputs of one kind"):
        read_import(pool, checkpoint_of(pool, network_of("stack"), (IMAGE, other)))


def test_an_import_is_handed_in_only_whole(pool: FolderPool) -> None:
    found = read_import(pool, checkpoint_of(pool, network_of("stack")))
    sizes = NETWORK.parameters(found.structure)
    imported = {role: {"digest": digest, "parameters": sizes[role]} for role, digest in found.digests.items()}
    request = canonical.dumps({"imported": imported, "blobs": str(pool.folder)}).encode()

    def ask() -> dict[str, Any]:
        return answer_of(evaluate_import(request, lambda message: None))

    answer = ask()
    assert (answer["reason"], answer["components"], answer["improved"]) == (None, imported, True)
    blob = pool.path(found.digests["inputs"])
    data = bytearray(blob.read_bytes())
    data[-1] ^= 1
    blob.chmod(0o600)
    blob.write_bytes(data)
    assert ask()["reason"] == "damaged"
    blob.unlink()
    assert ask()["reason"] == "damaged"


def test_answers_of_its_own_are_left_out(pool: FolderPool) -> None:
    of_stack = read_import(pool, checkpoint_of(pool, network_of("stack"), outputs=(DIGIT, OutputSpec("b", "class", 3))))
    assert {part.name for part in of_stack.structure.parts} == {"inputs", "layers.0"}
    halting = read_import(pool, checkpoint_of(pool, network_of("h_model that halts")))
    assert "outputs" in {part.name for part in halting.structure.parts}, "they say when it has thought enough"

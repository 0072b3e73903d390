"""What a worker does with a path of texts: bytes or subwords, alone or inside a multipath model."""

from __future__ import annotations

from pathlib import Path as Folder
from typing import Any

import numpy as np
import pytest
import torch

from evodevo.errors import UsageError
from evodevo.multitask.evaluate import evaluate_root, measure_path, open_path
from evodevo.multitask.evaluate_settings import PathRequest
from evodevo.multitask.genome import Path
from evodevo.multitask.paths.built import PathSamples
from evodevo.multitask.paths.multipath_spec import MultipathStructure, multipath_parameters
from evodevo.multitask.paths.text.kind import TEXT
from evodevo.multitask.paths.text.model import MASK, TOKENS
from evodevo.multitask.paths.text.spec import path_work, role_parameters
from evodevo.multitask.paths.weights import load_state
from evodevo.multitask.training.values import DataValues, data_values
from evodevo.settings import validate
from evodevo.storage.blobs import FolderPool
from fixtures import path_requests
from fixtures.path_requests import ask, frozen

STRUCTURE = {"width": 16, "heads": 2, "hidden": 16, "layers": 1, "length": 96}
TRAINING = {"validations": 2, "most_between": 800, "validation_cap": 80, "device": "cpu"}
BRIEF = {**TRAINING, "validations": 1, "most_between": 64}
SAMPLES = {"train": 800, "validation": 80, "test": 80}
AGENT = "TextTiny~topics"


def task_settings(seed: int = 0, classes: int = 2) -> dict[str, Any]:
    topics = {"samples": SAMPLES, "classes": classes, "clarity": 4.0, "own": 0.9, "other": 0.0, "seed": seed}
    return {"source": "text_labels", "options": {"tokenizer": "bytes", "length": 128, "topics": topics}, "batch": 16}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return {"blobs": str(tmp_path_factory.mktemp("blobs")), "cache": str(tmp_path_factory.mktemp("cache"))}


def path_of(number: int = 0, **other: Any) -> dict[str, Any]:
    plain = {"kind": "text_path", "structure": STRUCTURE, "classes": 2, "hparams": {"opt_lr": 0.1}}
    return path_requests.path_of(**{**plain, "agent": AGENT, "task": "topics", "number": number, **other})


def request_of(place: dict[str, str], path: dict[str, Any], **other: Any) -> dict[str, Any]:
    return path_requests.request_of(place, path, **{"task_settings": task_settings(), "training": TRAINING, **other})


def logits(request: dict[str, Any]) -> torch.Tensor:
    built, task, _ = open_path(validate(PathRequest, request, what="a request"))
    with torch.no_grad():
        answer: torch.Tensor = built.model.eval()(built.reader(task, "test", data_values({}), 0)(np.arange(40), None))
    return answer


@pytest.fixture(scope="module")
def trained(place: dict[str, str]) -> dict[str, Any]:
    return ask(request_of(place, path_of()))


@pytest.mark.slow
def test_a_path_learns_to_tell_topics_apart_by_their_bytes(place: dict[str, str], trained: dict[str, Any]) -> None:
    structure = TEXT.structure_of(validate(Path, path_of(), what="a path"))
    assert trained["reason"] is None
    assert {role: one["parameters"] for role, one in trained["components"].items()} == role_parameters(structure)
    assert trained["flops"] == path_work(structure).total
    again = request_of(place, path_of(), components=frozen(trained), split="validation")
    assert ask(again, measure_path)["accuracy"] == trained["quality"]
    assert trained["quality"] > 0.6


def test_an_inserted_block_and_another_length_begin_where_the_parent_is(
    place: dict[str, str], trained: dict[str, Any]
) -> None:
    parts = frozen(trained)
    before = logits(request_of(place, path_of(), components=parts))
    grown = path_of(1, hparams={"num_layers": 2, "ds_length": 128})
    parts |= {"encoderblock_1": {"digest": None, "train": True, "how": "insert"}}
    parts["posembed_input"] = {**parts["posembed_input"], "how": "resize", "train": True}
    longer = logits(request_of(place, grown, components=parts))
    built, task, _ = open_path(validate(PathRequest, request_of(place, grown, components=parts), what="a request"))
    read = built.reader(task, "test", data_values({}), 0)(np.arange(40), None)
    assert read[TOKENS].shape == (40, 128)
    short = read[MASK].sum(1) <= 96
    assert 0 < short.sum() < 40
    torch.testing.assert_close(longer[short], before[short])
    assert not torch.allclose(longer[~short], before[~short])


@pytest.mark.slow
def test_subwords_are_trained_on_the_root_s_texts_and_go_where_the_embedding_goes(place: dict[str, str]) -> None:
    structure = {**STRUCTURE, "tokenizer": "bpe", "vocabulary": 400}
    root = ask(request_of(place, path_of(2, structure=structure), training=BRIEF))
    assert root["reason"] is None
    again = ask(request_of(place, path_of(2, structure=structure), training=BRIEF))
    assert again["components"] == root["components"], "the same texts, the same subwords, the same path"
    pool = FolderPool(Folder(place["blobs"]))
    kept = load_state(pool, root["components"]["embedding"]["digest"], "embedding")
    assert b'"kind":"bpe"' in bytes(kept["tokenizer"].numpy())
    # Another task's path takes the embedding over, and reads that task's texts in the subwords of the first.
    parts = frozen(root)
    parts["head"] = {"digest": None, "train": True, "how": "new"}
    other = request_of(
        place, path_of(3, structure=structure), components=parts, task_settings=task_settings(seed=5), training=BRIEF
    )
    answer = ask(other)
    assert set(answer["components"]) == {"head"}
    built, task, _ = open_path(validate(PathRequest, other, what="a request"))
    read = built.reader(task, "test", data_values({}), 0)(np.arange(20), None)
    assert read[TOKENS].max() >= 256
    mask = task.fetch("test", np.arange(20))["text/mask"]
    assert (read[MASK].sum(1).numpy() < mask.sum(1)).all()
    digests = {role: one["digest"] for role, one in root["components"].items()}
    inside = TEXT.freeze(validate(Path, path_of(2, structure=structure), what="a path"), digests, pool, False)
    samples = PathSamples(task, "test", np.arange(20), DataValues(), 0, None)
    assert torch.equal(inside.read(samples)[TOKENS], read[TOKENS]), "inside of another path, too"


def test_roots(place: dict[str, str]) -> None:
    path = path_of(4, classes=0, agent="TextTiny~root_model~random_init", task="root_model~random_init")
    request = request_of(place, path, root="random_init")
    answer = ask(request, evaluate_root)
    assert answer["improved"]
    assert {role: one["parameters"] for role, one in answer["components"].items()} == role_parameters(
        TEXT.structure_of(validate(Path, path, what="a path"))
    )
    subwords = path | {"structure": {**STRUCTURE, "tokenizer": "bpe", "vocabulary": 300}}
    with pytest.raises(UsageError, match="has none"):
        ask(request | {"path": subwords}, evaluate_root)


def test_images_are_not_read(place: dict[str, str]) -> None:
    path = path_of(5, classes=10)
    with pytest.raises(UsageError, match=r"reads one text per sample, as bytes; .*image"):
        ask(request_of(place, path, task_settings={}))


@pytest.mark.slow
def test_a_multipath_model_over_texts_learns_alike_with_kept_representations_and_without(
    place: dict[str, str], trained: dict[str, Any]
) -> None:
    support = path_of(1, agent="TextTiny~other", task="other", structure={**STRUCTURE, "length": 32})
    made = ((path_of(), trained), (support, ask(request_of(place, support, training=BRIEF))))
    supports = [
        {"path": path, "components": {role: one["digest"] for role, one in answer["components"].items()}}
        for path, answer in made
    ]
    names = [{"agent": path["agent"], "number": path["number"]} for path, _ in made]
    path = path_of(agent="MultiTextTiny~topics", kind="multipath", paths=names, structure={})
    sizes = multipath_parameters(MultipathStructure(), 2, [16])
    answers = {}
    for kept in (True, False):
        training = {**TRAINING, "most_between": 400, "representations": kept}
        new = {role: {"digest": None, "train": True} for role in sizes}
        answers[kept] = ask(request_of(place, path, supports=supports, components=new, training=training))
        assert answers[kept]["reason"] is None
        assert answers[kept]["trainable"] == sum(sizes.values())
    pool = FolderPool(Folder(place["blobs"]))
    for role in sizes:
        one, two = (load_state(pool, answers[kept]["components"][role]["digest"], role) for kept in (True, False))
        for name, value in one.items():
            torch.testing.assert_close(value, two[name], rtol=0, atol=1e-4)
    assert set((Folder(place["cache"]) / "paths").rglob("*.rows"))

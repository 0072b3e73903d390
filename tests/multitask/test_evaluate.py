"""What a worker does with a path: trains its own components, leaves others alone, keeps what exceeds the bar."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path as Folder
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from evodevo import canonical
from evodevo.execution.base import Executor, Job, Result
from evodevo.execution.processes import ProcessExecutor
from evodevo.execution.serial import SerialExecutor
from evodevo.multitask.evaluate import evaluate_path, evaluate_root, measure_path, open_path
from evodevo.multitask.evaluate_settings import PathRequest, read_request
from evodevo.multitask.genome import Path
from evodevo.multitask.paths.built import BuiltPath, PathSamples
from evodevo.multitask.paths.kinds import KINDS, PathKind
from evodevo.multitask.paths.vision.evaluate import read_samples
from evodevo.multitask.paths.vision.input import read_images
from evodevo.multitask.paths.vision.spec import (
    VisionStructure,
    path_flops,
    path_parameters,
    role_parameters,
    structure_of,
)
from evodevo.multitask.paths.weights import load_state
from evodevo.multitask.training.values import DataValues
from evodevo.settings import validate
from evodevo.storage.blobs import BlobPool, FolderPool
from evodevo.tasks.base import SampleTask, Split
from evodevo.tasks.inputs import InputSpec
from evodevo.testing.multitask.paths import answer_of
from evodevo.training.parts import save_part
from evodevo.training.precision import Precision

STRUCTURE = {"width": 8, "heads": 2, "hidden": 16, "layers": 1, "image_size": 8, "patch": 4}
TRAINING = {"validations": 3, "most_between": 400, "validation_cap": 120, "device": "cpu"}
TOPICS: dict[str, Any] = {"samples": {"train": 400, "validation": 80, "test": 80}}
AGENT = "VitTiny~digits"


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tmp_path_factory.mktemp("cache"))


@pytest.fixture
def place(tmp_path: Folder, cache: str) -> dict[str, str]:
    return {"blobs": str(tmp_path / "blobs"), "cache": cache}


def _path(number: int = 0, *, classes: int = 10, agent: str = AGENT, **other: Any) -> dict[str, Any]:
    plain = {"agent": agent, "number": number, "task": "digits", "classes": classes, "structure": STRUCTURE}
    return validate(Path, {**plain, **other}, what="a path").model_dump(mode="json")


def _new(path: dict[str, Any]) -> dict[str, Any]:
    roles = structure_of(validate(Path, path, what="a path")).roles
    return {role: {"digest": None, "train": True, "how": "new"} for role in roles}


def _request(place: dict[str, str], path: dict[str, Any] | None = None, **other: Any) -> dict[str, Any]:
    path = path or _path()
    own = {} if "components" in other else {"components": _new(path)}
    plain = {"path": path, **own, "task": "digits", "training": TRAINING, "seed": 1, **place}
    return {**plain, **other}


def _ask(request: dict[str, Any], what: Any = evaluate_path) -> dict[str, Any]:
    return answer_of(what(canonical.dumps(request).encode(), lambda message: None))


def _as_frozen(answer: dict[str, Any]) -> dict[str, Any]:
    return {role: {"digest": one["digest"], "how": "reference"} for role, one in answer["components"].items()}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, cache: str) -> tuple[dict[str, str], dict[str, Any]]:
    place = {"blobs": str(tmp_path_factory.mktemp("blobs")), "cache": cache}
    return place, _ask(_request(place))


@pytest.mark.slow
def test_a_path_is_trained_and_every_component_is_a_blob(trained: tuple[dict[str, str], dict[str, Any]]) -> None:
    place, answer = trained
    structure = VisionStructure(**STRUCTURE, classes=10)
    assert answer["reason"] is None
    assert answer["improved"]
    assert len(answer["evals"]) == 3
    assert answer["quality"] == max(answer["evals"]) > 0.2
    assert answer["evals"].index(answer["quality"]) == answer["kept"]
    assert {role: one["parameters"] for role, one in answer["components"].items()} == role_parameters(structure)
    assert answer["parameters"] == answer["trainable"] == path_parameters(structure)
    assert answer["flops"] == path_flops(structure)
    assert "kept look" in answer["explanation"]
    pool = FolderPool(Folder(place["blobs"]))
    for role, one in answer["components"].items():
        assert save_part(pool, load_state(pool, one["digest"], role)) == one["digest"]


@pytest.mark.slow
def test_the_same_request_gives_the_same_answer_in_any_executor(
    trained: tuple[dict[str, str], dict[str, Any]], tmp_path: Folder
) -> None:
    place, first = trained
    request = canonical.dumps(_request({**place, "blobs": str(tmp_path / "others")})).encode()

    def asked(executor: Executor) -> dict[str, Any]:
        with executor:
            executor.submit(Job("one", "path", request))
            found: list[Result] = []
            while not found:
                found = [event for event in executor.poll(60) if isinstance(event, Result)]
        assert found[0].payload is not None, found[0].detail
        return answer_of(found[0].payload)

    for executor in (SerialExecutor(), ProcessExecutor(1)):
        again = asked(executor)
        assert {**again, "seconds": 0} == {**first, "seconds": 0}


@pytest.mark.slow
def test_another_seed_gives_another_path(trained: tuple[dict[str, str], dict[str, Any]], place: dict[str, str]) -> None:
    assert _ask(_request(place, seed=2))["components"] != trained[1]["components"]


def test_only_unlocked_components_are_trained(trained: tuple[dict[str, str], dict[str, Any]]) -> None:
    place, root = trained
    parts = _as_frozen(root)
    parts["head"] = {"digest": None, "train": True, "how": "new"}
    parts["encoder_norm"] = {**parts["encoder_norm"], "train": True, "how": "clone"}
    answer = _ask(_request(place, components=parts, seed=3))
    assert set(answer["components"]) == {"head", "encoder_norm"}
    assert answer["components"]["encoder_norm"]["digest"] != root["components"]["encoder_norm"]["digest"]
    assert answer["trainable"] == 8 * 2 + 9 * 10
    assert answer["parameters"] == root["parameters"]


@pytest.mark.slow
def test_a_child_below_its_bar_leaves_nothing(trained: tuple[dict[str, str], dict[str, Any]]) -> None:
    place, root = trained
    pool = FolderPool(Folder(place["blobs"]))
    before = set(pool.digests())
    answer = _ask(_request(place, bar=1.0, seed=4))
    assert (answer["reason"], answer["improved"], answer["components"]) == (None, False, {})
    assert len(answer["evals"]) == 3
    assert set(pool.digests()) == before
    tied = _ask(_request(place, bar=root["quality"]))
    assert not tied["improved"]


@pytest.mark.slow
def test_what_is_published_answers_as_it_was_measured(trained: tuple[dict[str, str], dict[str, Any]]) -> None:
    """Its logits are bit-identical before and after another path was made of its components."""
    place, root = trained
    whole = {"batch": 269}  # all of the validation split at once
    training = {**TRAINING, "validation_cap": 269}
    frozen = _request(place, components=_as_frozen(root), training=training, task_settings=whole)

    def logits() -> Tensor:
        built, task, _ = open_path(read_request(canonical.dumps(frozen).encode()))
        read = built.reader(task, "test", DataValues(), 0)
        with torch.no_grad():
            answer: Tensor = built.model.eval()(read(np.arange(50), None))
        return answer

    before = logits()
    parts = {role: {**one, "train": True, "how": "clone"} for role, one in _as_frozen(root).items()}
    other = _ask(_request(place, components=parts, seed=5))
    assert {one["digest"] for one in other["components"].values()}.isdisjoint(
        one["digest"] for role, one in root["components"].items()
    )
    assert torch.equal(logits(), before)
    measured = _ask({**frozen, "split": "validation"}, measure_path)
    assert 0.1 < measured["accuracy"] <= 1
    assert measured["samples"] == 269
    assert measured != _ask(frozen, measure_path) == _ask({**frozen, "split": "test"}, measure_path)
    assert _ask(frozen)["evals"] == [measured["accuracy"]]  # nothing learns: one look, at the whole split


def test_an_inserted_block_and_a_resized_grid_begin_where_the_parent_is(
    trained: tuple[dict[str, str], dict[str, Any]],
) -> None:
    place, root = trained
    deeper = _path(1, structure={**STRUCTURE, "layers": 2})
    parts = {**_as_frozen(root), "encoderblock_1": {"digest": None, "how": "insert"}}
    plain = _ask(_request(place, components=_as_frozen(root)), measure_path)
    assert _ask(_request(place, deeper, components=parts), measure_path)["accuracy"] == plain["accuracy"]
    larger = _path(2, structure={**STRUCTURE, "image_size": 16})
    parts = _as_frozen(root)
    parts["posembed_input"] |= {"how": "resize", "train": True}
    answer = _ask(_request(place, larger, components=parts))
    assert answer["components"]["posembed_input"]["parameters"] == 17 * 8


@pytest.mark.slow
def test_values_of_the_path_decide_how_it_is_trained(
    trained: tuple[dict[str, str], dict[str, Any]], place: dict[str, str]
) -> None:
    for values in ({"opt_lr": 0.05}, {"ds_area_range_min": 0.5}, {"ds_flip_left_right": True}):
        answer = _ask(_request(place, _path(hparams=values)))
        assert answer["reason"] is None
        assert answer["components"]["head"] != trained[1]["components"]["head"]


def test_a_path_that_diverges_says_so(place: dict[str, str]) -> None:
    answer = _ask(_request(place, _path(hparams={"opt_lr": 1e30})))
    assert (answer["reason"], answer["improved"], answer["components"]) == ("diverged", False, {})


def test_a_damaged_or_missing_component_is_told(
    trained: tuple[dict[str, str], dict[str, Any]], tmp_path: Folder
) -> None:
    place, root = trained
    parts = _as_frozen(root)
    missing = _ask(_request({**place, "blobs": str(tmp_path / "empty")}, components=parts))
    assert missing["reason"] == "damaged"
    pool = FolderPool(tmp_path / "blobs")
    for role, one in root["components"].items():
        save_part(pool, load_state(FolderPool(Folder(place["blobs"])), one["digest"], role))
    file = pool.path(root["components"]["head"]["digest"])
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.chmod(0o600)
    file.write_bytes(bytes(data))
    answer = _ask(_request({**place, "blobs": str(tmp_path / "blobs")}, components=parts))
    assert answer["reason"] == "damaged"
    assert root["components"]["head"]["digest"] in answer["detail"]


def test_a_path_for_other_classes_is_refused(place: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"answers 3 classes.*has 10"):
        _ask(_request(place, _path(classes=3)))


def test_roots(place: dict[str, str]) -> None:
    path = _path(classes=0)
    answer = _ask(_request(place, path, components=_new(path), root="random_init"), evaluate_root)
    assert answer["improved"]
    assert answer["evals"] == []
    assert {role: one["parameters"] for role, one in answer["components"].items()} == role_parameters(
        VisionStructure(**STRUCTURE)
    )
    assert (
        _ask(_request(place, path, components=_new(path), root="random_init"), evaluate_root)["components"]
        == answer["components"]
    )


class _Drawn:
    """A task of images, of which nothing but samples is asked."""

    def __init__(self) -> None:
        self.inputs = (InputSpec("picture", "image", height=12, width=12, channels=1),)
        self.images = np.random.default_rng(0).integers(0, 256, (5, 12, 12, 1)).astype(np.uint8)
        self.asked = 0

    def fetch(self, split: Split, places: Any) -> dict[str, Any]:
        self.asked += 1
        return {"picture": self.images[places]}


def test_every_path_reads_the_same_changes_at_its_own_size() -> None:
    """Augmentation is identical across sizes, and each sample is fetched once for all paths."""
    task = _Drawn()
    sizes = [VisionStructure(**{**STRUCTURE, "image_size": size}) for size in (8, 16)]

    def samples(values: DataValues, step: int | None) -> PathSamples:
        return PathSamples(task, "train", np.arange(5), values, 3, step)  # type: ignore[arg-type]

    values = DataValues(area=0.3, flip=True, brightness=0.2)
    together = samples(values, 4)
    for structure in sizes:
        read = read_samples(structure, together)
        assert torch.equal(read, read_samples(structure, samples(values, 4)))
        assert read.shape == (5, 3, structure.image_size, structure.image_size)
        assert read.abs().max() <= 1
    assert task.asked == 3
    unchanged = read_samples(sizes[0], samples(values, None))
    assert torch.equal(read_samples(sizes[0], samples(DataValues(), 4)), unchanged)
    assert torch.equal(unchanged, read_images(sizes[0], torch.from_numpy(task.images)))
    assert not torch.equal(read_samples(sizes[0], together), unchanged)


def _multipath(place: dict[str, str], root: dict[str, Any], **other: Any) -> dict[str, Any]:
    digests = {role: one["digest"] for role, one in root["components"].items()}
    subs = [{"agent": "VitTiny~digits", "number": 0}, {"agent": "VitTiny~other", "number": 0}]
    path = _path(
        agent="MultiVitTiny~digits",
        kind="multipath",
        structure={},
        hparams={"router_lr_mult": 0.05, **other.pop("hparams", {})},
        paths=subs,
    )
    components = {role: {"digest": None, "train": True, "how": "new"} for role in ("connector_1", "router")}
    supports = [{"path": _path(agent=sub["agent"]), "components": digests} for sub in subs]
    return _request(place, path, components=components, supports=supports, **other)


@pytest.mark.slow
def test_a_multipath_model_is_trained_with_and_without_a_cache(
    trained: tuple[dict[str, str], dict[str, Any]], tmp_path: Folder
) -> None:
    """Kept representations change nothing, and are left alone where chance changes images."""
    place, root = trained
    pool = FolderPool(Folder(place["blobs"]))
    answers = {}
    for kept in (True, False):
        request = _multipath(place, root, training={**TRAINING, "representations": kept})
        answers[kept] = _ask(request)
        assert answers[kept]["reason"] is None
        assert answers[kept]["components"]["connector_1"]["parameters"] == 9 * 10
        assert answers[kept]["trainable"] == 90 + 22
    for role in ("connector_1", "router"):
        one, two = (load_state(pool, answers[kept]["components"][role]["digest"], role) for kept in (True, False))
        for name, value in one.items():
            torch.testing.assert_close(value, two[name], rtol=0, atol=1e-4)
    files = set((Folder(place["cache"]) / "paths").rglob("*.rows"))
    assert files
    other = {**place, "cache": str(tmp_path / "cache")}
    changed = _ask(_multipath(other, root, hparams={"ds_flip_left_right": True}))
    assert changed["improved"]
    validation = sum(1 for _ in (tmp_path / "cache" / "paths").rglob("*.rows"))
    assert 0 < validation < len(files)


def test_an_untrained_multipath_model_answers_as_its_main_path(
    trained: tuple[dict[str, str], dict[str, Any]],
) -> None:
    place, root = trained
    main = _ask(_request(place, components=_as_frozen(root)), measure_path)
    request = _multipath(place, root)
    request["components"] = {role: {"digest": None} for role in request["components"]}
    assert _ask(request, measure_path)["accuracy"] == main["accuracy"]


# Any modality: a kind of path that reads texts


class _TextKind(PathKind):
    kind = "testing.text_path"

    def build(self, request: PathRequest, pool: BlobPool, task: SampleTask, precision: Precision) -> BuiltPath:
        torch.manual_seed(request.seed)
        model = nn.Sequential(nn.EmbeddingBag(task.inputs[0].vocabulary, 16), nn.Linear(16, request.path.classes))

        def read(samples: PathSamples) -> Tensor:
            return torch.from_numpy(np.where(samples.batch["text/mask"], samples.batch["text"], 0))

        return BuiltPath(model, {"words": model[0], "head": model[1]}, 0.0, read, precision)


@pytest.fixture
def text_paths() -> Iterator[None]:
    KINDS.add(_TextKind.kind, _TextKind())
    yield
    KINDS._rows.pop(_TextKind.kind)


@pytest.mark.slow
def test_a_task_of_texts_goes_through_the_same_contract(place: dict[str, str], text_paths: None) -> None:
    settings = {
        "source": "text_labels",
        "options": {
            "tokenizer": "bpe",
            "vocabulary": 400,
            "length": 32,
            "topics": TOPICS | {"classes": 4},
        },
        "batch": 16,
    }
    path = _path(classes=4, kind="testing.text_path", agent="Text~topics", hparams={"opt_lr": 0.5})
    components = {role: {"digest": None, "train": True} for role in ("words", "head")}
    answer = _ask(_request(place, path, components=components, task="topics", task_settings=settings))
    assert answer["reason"] is None
    assert answer["quality"] > 0.4
    assert set(answer["components"]) == {"words", "head"}


def test_a_vision_path_does_not_read_texts(place: dict[str, str]) -> None:
    settings = {"source": "text_labels", "options": {"tokenizer": "bytes", "topics": TOPICS | {"classes": 10}}}
    with pytest.raises(ValueError, match="reads one image per sample"):
        _ask(_request(place, task_settings=settings))

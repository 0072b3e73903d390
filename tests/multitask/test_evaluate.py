"""What a worker does with a path: trains its components, keeps what exceeds the bar, answers alike anywhere.

Laws of any kind of path, bars and damage among them: ``paths/test_kinds.py``; of multipath models: ``test_real.py``.
"""

from __future__ import annotations

import time
from pathlib import Path as Folder
from typing import Any

import numpy as np
import pytest
import torch

from evodevo import canonical
from evodevo.errors import DiskFullError
from evodevo.execution.base import Executor, Job, Result
from evodevo.execution.processes import ProcessExecutor
from evodevo.multitask.evaluate import evaluate_root, measure_path
from evodevo.multitask.evaluate_settings import answered
from evodevo.multitask.paths.built import PathSamples
from evodevo.multitask.paths.images import read_images, read_samples
from evodevo.multitask.paths.vision.spec import (
    VisionStructure,
    path_flops,
    path_parameters,
    role_parameters,
)
from evodevo.multitask.paths.weights import load_state
from evodevo.multitask.training.values import DataValues
from evodevo.search.problem import DISK_FULL, Outcome, read_answer
from evodevo.storage.blobs import FolderPool
from evodevo.tasks.base import Split
from evodevo.tasks.inputs import InputSpec
from evodevo.testing.multitask.paths import answer_of
from evodevo.training.parts import save_part
from fixtures.path_requests import ask, frozen, path_of, request_of

STRUCTURE = {"width": 8, "heads": 2, "hidden": 16, "layers": 1, "image_size": 8, "patch": 4}
TRAINING = {"validations": 3, "most_between": 400, "validation_cap": 120, "device": "cpu"}
TOPICS: dict[str, Any] = {"samples": {"train": 400, "validation": 80, "test": 80}}
AGENT = "VitTiny~digits"
Trained = tuple[dict[str, str], dict[str, Any]]
"""Folders of blobs and of prepared data, and the answer."""


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tmp_path_factory.mktemp("cache"))


@pytest.fixture
def place(tmp_path: Folder, cache: str) -> dict[str, str]:
    return {"blobs": str(tmp_path / "blobs"), "cache": cache}


def test_an_answer_says_how_long_the_process_worked_and_not_how_long_it_waited() -> None:
    def waits() -> Outcome:
        time.sleep(0.3)
        return Outcome(extra={"kept": 1})

    def works() -> Outcome:
        begin = time.process_time()
        while time.process_time() - begin < 0.1:
            pass
        raise DiskFullError("no room")

    waited, worked = (read_answer(answered(one)) for one in (waits, works))
    assert waited.extra["kept"] == 1
    assert waited.extra["cpu_seconds"] < 0.1 < 0.3 <= waited.seconds
    assert worked.reason == DISK_FULL
    assert worked.extra["cpu_seconds"] >= 0.1, "of what failed, too"


def _path(**other: Any) -> dict[str, Any]:
    plain = {"structure": STRUCTURE, "classes": 10, "agent": AGENT, "task": "digits"}
    return path_of("vision_path", **{**plain, **other})


def _request(place: dict[str, str], path: dict[str, Any] | None = None, **other: Any) -> dict[str, Any]:
    return request_of(place, path or _path(), **{"training": TRAINING, **other})


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, cache: str) -> Trained:
    place = {"blobs": str(tmp_path_factory.mktemp("blobs")), "cache": cache}
    return place, ask(_request(place))


@pytest.mark.slow
def test_a_path_is_trained_and_every_component_is_a_blob(trained: Trained) -> None:
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
def test_the_same_request_gives_the_same_answer_in_any_executor(trained: Trained, tmp_path: Folder) -> None:
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

    again = asked(ProcessExecutor(1))
    assert {**again, "seconds": 0} == {**first, "seconds": 0}


@pytest.mark.slow
def test_a_tie_with_the_bar_leaves_nothing_and_a_measurement_is_of_the_whole_split(trained: Trained) -> None:
    place, root = trained
    assert not ask(_request(place, bar=root["quality"]))["improved"]
    whole = {"batch": 269}  # all of the validation split at once
    training = {**TRAINING, "validation_cap": 269}
    known = _request(place, components=frozen(root), training=training, task_settings=whole)
    measured = ask({**known, "split": "validation"}, measure_path)
    assert 0.1 < measured["accuracy"] <= 1
    assert measured["samples"] == 269
    assert measured != ask(known, measure_path) == ask({**known, "split": "test"}, measure_path)
    assert ask(known)["evals"] == [measured["accuracy"]]  # nothing learns: one look, at the whole split


def test_an_inserted_block_and_a_resized_grid_begin_where_the_parent_is(trained: Trained) -> None:
    place, root = trained
    deeper = _path(number=1, structure={**STRUCTURE, "layers": 2})
    parts = {**frozen(root), "encoderblock_1": {"digest": None, "how": "insert"}}
    plain = ask(_request(place, components=frozen(root)), measure_path)
    assert ask(_request(place, deeper, components=parts), measure_path)["accuracy"] == plain["accuracy"]
    larger = _path(number=2, structure={**STRUCTURE, "image_size": 16})
    parts = frozen(root)
    parts["posembed_input"] |= {"how": "resize", "train": True}
    answer = ask(_request(place, larger, components=parts))
    assert answer["components"]["posembed_input"]["parameters"] == 17 * 8


@pytest.mark.slow
def test_values_of_the_path_decide_how_it_is_trained(trained: Trained, place: dict[str, str]) -> None:
    for values in ({"opt_lr": 0.05}, {"ds_area_range_min": 0.5}, {"ds_flip_left_right": True}):
        answer = ask(_request(place, _path(hparams=values)))
        assert answer["reason"] is None
        assert answer["components"]["head"] != trained[1]["components"]["head"]


def test_a_path_that_diverges_says_so(place: dict[str, str]) -> None:
    answer = ask(_request(place, _path(hparams={"opt_lr": 1e30})))
    assert (answer["reason"], answer["improved"], answer["components"]) == ("diverged", False, {})


def test_roots(place: dict[str, str]) -> None:
    path = _path(classes=0)
    request = _request(place, path, root="random_init")
    answer = ask(request, evaluate_root)
    assert answer["improved"]
    assert answer["evals"] == []
    sizes = {role: one["parameters"] for role, one in answer["components"].items()}
    assert sizes == role_parameters(VisionStructure(**STRUCTURE))
    assert ask(request, evaluate_root)["components"] == answer["components"]


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


def test_a_vision_path_does_not_read_texts(place: dict[str, str]) -> None:
    settings = {"source": "text_labels", "options": {"tokenizer": "bytes", "topics": TOPICS | {"classes": 10}}}
    with pytest.raises(ValueError, match="reads one image per sample"):
        ask(_request(place, task_settings=settings))

"""Samples in memory: the same batches at every call, and what does not fit is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from evodevo.errors import DataError, UsageError
from evodevo.tasks.base import OutputSpec
from evodevo.tasks.in_memory import InMemoryTask
from evodevo.tasks.inputs import InputSpec

INPUTS = (InputSpec("vectors", "vector", size=3), InputSpec("image", "image", height=2, width=2, channels=1))
OUTPUTS = (OutputSpec("answer", "class", 2, ("a", "b")), OutputSpec("labels", "labels", 4))


def part(count: int, seed: int = 0) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {
        "vectors": rng.normal(size=(count, 3)).astype(np.float32),
        "image": rng.integers(0, 256, (count, 2, 2, 1)).astype(np.uint8),
        "answer/target": rng.integers(0, 2, count),
        "labels/target": rng.integers(0, 2, (count, 4)).astype(np.float32),
    }


def test_batches_are_a_function_of_split_seed_and_step() -> None:
    parts = {"validation": part(5, 1), "train": part(9)}
    task = InMemoryTask(INPUTS, OUTPUTS, parts)
    assert task.splits == ("train", "validation")
    assert (task.count("train"), task.count("validation")) == (9, 5)
    first, again, later = (task.batch("train", 3, step, 4) for step in (0, 0, 1))
    assert all(np.array_equal(first[name], again[name]) for name in parts["train"])
    assert not np.array_equal(first["vectors"], later["vectors"])
    one = task.fetch("validation", np.array([4, 0]))
    assert np.array_equal(one["labels/target"], parts["validation"]["labels/target"][[4, 0]])
    assert task.show("train", 0)["image"] == "2 x 2 x 1"
    assert task.describe()["samples"] == {"train": 9, "validation": 5}
    with pytest.raises(UsageError, match="no split 'test'"):
        task.count("test")
    with pytest.raises(UsageError, match="'table'"):
        InMemoryTask.open(None)


def test_equal_digests_mean_equal_data() -> None:
    task = InMemoryTask(INPUTS, OUTPUTS, {"train": part(4)})
    other = part(4)
    assert InMemoryTask(INPUTS, OUTPUTS, {"train": other}).digest == task.digest
    other["image"][0, 0, 0] ^= 1
    assert InMemoryTask(INPUTS, OUTPUTS, {"train": other}).digest != task.digest


@pytest.mark.parametrize(
    ("name", "array", "words"),
    [
        ("vectors", None, "no array 'vectors'"),
        ("vectors", np.zeros((3, 3)), "equal lengths"),
        ("image", np.zeros((4, 2, 2)), r"not \(2, 2, 1\)"),
        ("labels/target", np.zeros(4), r"not \(4,\)"),
    ],
)
def test_what_does_not_fit_is_refused(name: str, array: Any, words: str) -> None:
    samples = {key: one for key, one in part(4).items() if key != name}
    with pytest.raises(DataError, match=words):
        InMemoryTask(INPUTS, OUTPUTS, {"train": samples if array is None else {**samples, name: array}})

"""Texts of one's own become the ids that the task's own samples have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evodevo.errors import UsageError
from evodevo.settings import validate
from evodevo.tasks.base import TASKS, SampleTask

FEW = {"train": 60, "validation": 20, "test": 20}


def opened(name: str, cache: Path, **values: Any) -> SampleTask:
    kind = TASKS.get(name)
    return kind.open(validate(kind.settings_class, values, what="the test's settings"), cache)


def test_texts_of_a_language_are_cut_to_the_window(tmp_path: Path) -> None:
    task = opened("languages", tmp_path, context_length=8)
    assert task.encode("text", "abc").tolist() == list(b"abc")
    assert task.encode("text", "a" * 99).tolist() == [97] * 8


def test_labelled_texts_are_read_as_in_the_splits(tmp_path: Path) -> None:
    task = opened("text_labels", tmp_path, length=24, topics={"samples": FEW, "classes": 5})
    batch = task.fetch("validation", np.array([0]))
    text = task.show("validation", 0)["text"]
    real = batch["text"][0][batch["text/mask"][0]]
    assert task.encode("text", text).tolist() == real.tolist()


def test_captions_are_read_as_in_the_splits(tmp_path: Path) -> None:
    task = opened("image_text", tmp_path, scenes={"samples": FEW})
    name = next(spec.name for spec in task.inputs if spec.modality == "tokens")
    for place in range(4):
        batch = task.fetch("validation", np.array([place]))
        real = batch[name][0][batch[f"{name}/mask"][0]]
        assert task.encode(name, task.show("validation", place)[name]).tolist() == real.tolist()


def test_a_task_without_words_says_so(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="'pointer' reads no text"):
        opened("pointer", tmp_path).encode("text", "2->0")

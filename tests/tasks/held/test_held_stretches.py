"""Stretches of a text that are held back: no training window has a token of theirs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from evodevo.errors import DataError, UsageError
from evodevo.settings import Settings
from evodevo.tasks.base import ALL_SPLITS, OutputSpec, SampleTask, Split
from evodevo.tasks.held.back import with_architecture_split
from evodevo.tasks.held.stretches import MOST_WINDOWS, STRETCHES, HeldStretchesTask
from evodevo.tasks.inputs import Batch
from evodevo.tasks.text.language import LanguageSettings, LanguageTask, windows_of


class NumberedText(SampleTask):
    """A text in which every token is its position."""

    overlapping = True

    def __init__(self, tokens: int, length: int) -> None:
        self.inputs, outputs = windows_of(256, length)
        self.outputs: tuple[OutputSpec, ...] = outputs
        self.group_names = {}
        self.digest, self.key = "d" * 64, "k" * 64
        self.tokens, self.length = tokens, length

    @classmethod
    def open(cls, settings: Any, cache_folder: Path | None = None, key: str | None = None) -> NumberedText:
        raise NotImplementedError

    def describe(self) -> dict[str, Any]:
        return {}

    def count(self, split: Split) -> int:
        return self.tokens - self.length if split == "train" else 7

    def fetch(self, split: Split, indices: NDArray[np.int64]) -> Batch:
        rows = np.asarray(indices)[:, None] + np.arange(self.length + 1)
        return {"text": rows[:, :-1], "next/target": rows[:, 1:]}

    def groups(self, split: Split, indices: NDArray[np.int64]) -> dict[str, NDArray[np.int64]]:
        return {}

    def show(self, split: Split, index: int) -> dict[str, str]:
        return {"text": f"{split} {index}"}


def tokens_of(task: SampleTask, split: Split) -> list[set[int]]:
    batch = task.fetch(split, np.arange(task.count(split)))
    return [
        set(row.tolist()) | set(next_.tolist()) for row, next_ in zip(batch["text"], batch["next/target"], strict=False)
    ]


@given(st.integers(1, 24), st.integers(40, 900), st.floats(0.01, 0.5))
def test_training_windows_and_held_windows_share_no_token(length: int, tokens: int, share: float) -> None:
    whole = NumberedText(tokens + length, length)
    try:
        task = HeldStretchesTask(whole, share)
    except DataError:
        return
    trained, held = tokens_of(task, "train"), tokens_of(task, "architecture")
    assert trained
    assert held
    assert not set.union(*trained) & set.union(*held)
    # Every training window is one of the text's, once, and no other one would fit.
    starts = [min(window) for window in trained]
    fitting = [start for start in range(tokens) if not set(range(start, start + length + 1)) & set.union(*held)]
    assert starts == fitting
    # A held token is predicted once.
    targets = task.fetch("architecture", np.arange(task.count("architecture")))["next/target"]
    assert targets.size == np.unique(targets).size
    assert targets.max() < tokens + length


def test_a_text_too_short_is_a_sentence() -> None:
    with pytest.raises(DataError, match="15 tokens, too few to hold windows of 10 back"):
        HeldStretchesTask(NumberedText(15, 10))


def test_stretches_lie_all_over_the_text_and_are_few_in_a_long_one() -> None:
    task = HeldStretchesTask(NumberedText(1_000_000, 64))
    first = task.fetch("architecture", np.arange(task.count("architecture")))["text"][:, 0]
    parts, sizes = np.unique(first * STRETCHES // 1_000_000, return_counts=True)
    assert parts.tolist() == list(range(STRETCHES)), "a part of the text each"
    assert sizes.max() - sizes.min() <= 1
    assert task.count("architecture") == pytest.approx(0.1 * 1_000_000 / 64, rel=0.01)
    assert HeldStretchesTask(NumberedText(100_000_000, 64)).count("architecture") == MOST_WINDOWS


def test_a_language_task_holds_stretches_back_and_the_rest_is_as_it_was(text: Path) -> None:
    whole = LanguageTask.open(LanguageSettings(data=str(text), context_length=16))
    task = with_architecture_split(whole)
    assert isinstance(task, HeldStretchesTask)
    assert task.splits == ALL_SPLITS
    assert with_architecture_split(task) is task
    chosen = np.arange(3)
    for split in ("validation", "test"):
        assert task.count(split) == whole.count(split)
        theirs = whole.fetch(split, chosen)
        assert all(np.array_equal(values, theirs[name]) for name, values in task.fetch(split, chosen).items())
        assert task.show(split, 1) == whole.show(split, 1)
    place = int(task._held[1])
    assert task.show("architecture", 1) == whole.show("train", place)
    assert task.describe()["digest"] == task.digest != whole.digest
    assert task.groups("train", chosen) == {}
    first = [task.batch("train", 3, 5, 4)["text"] for _ in range(2)]
    assert np.array_equal(*first), "a function of seed and step"
    with pytest.raises(UsageError, match="in code"):
        HeldStretchesTask.open(Settings())

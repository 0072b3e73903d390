"""A view of a task with a fourth split ``architecture``, cut from its training samples, for a search's decisions.

Source: docs/spec/architect_thyself.md#splits.

For tasks without such a split. Samples are drawn one by one: where several samples share a picture or a sentence, a
task's own split by group is the better choice, since shared content then cannot leak from training.

Shapes: B samples.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from evodevo import canonical
from evodevo.errors import DataError, UsageError
from evodevo.randomness import generator
from evodevo.settings import Settings
from evodevo.tasks.base import ALL_SPLITS, SampleTask, Split
from evodevo.tasks.held_stretches import HeldStretchesTask
from evodevo.tasks.inputs import Batch

SHARE = 0.2


class HeldBackTask(SampleTask):
    """A view of another task.

    Args:
        task: Original task, without a split ``architecture``.
        share: Fraction of its training samples to hold back, 0 to 1; the number is rounded, and at least one.

    Raises:
        DataError: The task has fewer than two training samples.
    """

    name: ClassVar[str] = "held_back"
    settings_class: ClassVar[type[Settings]] = Settings
    splits = ALL_SPLITS

    def __init__(self, task: SampleTask, share: float = SHARE) -> None:
        count = task.count("train")
        if count < 2:
            raise DataError(f"the train split has {count} samples; a search needs two, to learn and to judge.")
        self.whole = task
        self.inputs, self.outputs, self.group_names = task.inputs, task.outputs, task.group_names
        self.digest = canonical.digest({"task": task.digest, "held back": share})
        self.key = task.key
        held = min(max(1, round(share * count)), count - 1)
        # A fixed seed, so that all runs on a task hold back the same samples and are comparable.
        order = generator(0, "held back").permutation(count)
        self._rows = {"architecture": np.sort(order[:held]), "train": np.sort(order[held:])}

    @classmethod
    def open(cls, settings: Any, cache_folder: Path | None = None, key: str | None = None) -> HeldBackTask:
        raise UsageError("a split is held back from a task in code; such a task is not opened by itself.")

    def _place(self, split: Split, indices: NDArray[np.int64]) -> tuple[Split, NDArray[np.int64]]:
        return ("train", self._rows[split][indices]) if split in self._rows else (split, indices)

    def count(self, split: Split) -> int:
        return len(self._rows[split]) if split in self._rows else self.whole.count(split)

    def fetch(self, split: Split, indices: NDArray[np.int64]) -> Batch:
        return self.whole.fetch(*self._place(split, indices))

    def groups(self, split: Split, indices: NDArray[np.int64]) -> dict[str, NDArray[np.int64]]:
        return self.whole.groups(*self._place(split, indices))

    def show(self, split: Split, index: int) -> dict[str, str]:
        origin, indices = self._place(split, np.asarray([index]))
        return self.whole.show(origin, int(indices[0]))

    def describe(self) -> dict[str, Any]:
        return {**self.whole.describe(), "digest": self.digest}


def with_architecture_split(task: SampleTask) -> SampleTask:
    """The task itself where it has all four splits, else a view with all four."""
    if "architecture" in task.splits:
        return task
    return HeldStretchesTask(task) if task.overlapping else HeldBackTask(task)

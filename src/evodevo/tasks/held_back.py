"""A task with a fourth split, held back from its training samples: what a search may look at.

Source: docs/spec/architect_thyself.md#splits.

For tasks that have none of their own. Which samples are held back is drawn sample by sample: where several samples
share a picture or a sentence, a task's own split by group judges more honestly.

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
from evodevo.tasks.base import ALL_SPLITS, Batch, SampleTask, Split

SHARE = 0.2


class HeldBackTask(SampleTask):
    """A view of another task.

    Args:
        task: the whole, without a split ``architecture``.
        share: of its training samples that are held back, rounded, at least one.

    Raises:
        DataError: it has fewer than two training samples.
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
        order = generator(0, "held back").permutation(count)
        self._rows = {"architecture": np.sort(order[:held]), "train": np.sort(order[held:])}

    @classmethod
    def open(cls, settings: Any, cache_folder: Path | None = None, key: str | None = None) -> HeldBackTask:
        raise UsageError("a split is held back from a task in code; such a task is not opened by itself.")

    def _place(self, split: Split, places: NDArray[np.int64]) -> tuple[Split, NDArray[np.int64]]:
        return ("train", self._rows[split][places]) if split in self._rows else (split, places)

    def count(self, split: Split) -> int:
        return len(self._rows[split]) if split in self._rows else self.whole.count(split)

    def fetch(self, split: Split, places: NDArray[np.int64]) -> Batch:
        return self.whole.fetch(*self._place(split, places))

    def groups(self, split: Split, places: NDArray[np.int64]) -> dict[str, NDArray[np.int64]]:
        return self.whole.groups(*self._place(split, places))

    def show(self, split: Split, place: int) -> dict[str, str]:
        origin, places = self._place(split, np.asarray([place]))
        return self.whole.show(origin, int(places[0]))

    def describe(self) -> dict[str, Any]:
        return {**self.whole.describe(), "digest": self.digest}


def with_architecture_split(task: SampleTask) -> SampleTask:
    """The task itself where it has all four splits, else a view of it that has."""
    return task if "architecture" in task.splits else HeldBackTask(task)

"""A view of a task with a fourth split ``architecture``, cut from its training samples, for a search's decisions.

Source: docs/spec/architect_thyself.md#splits.

For tasks without such a split. Samples are drawn one by one: where several samples share a picture or a sentence, a
task's own split by group is the better choice, since shared content then cannot leak from training.

Shapes: B samples.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from evodevo import canonical
from evodevo.errors import DataError
from evodevo.randomness import generator
from evodevo.tasks.base import SampleTask, Split
from evodevo.tasks.held.stretches import HeldStretchesTask
from evodevo.tasks.held.view import HeldView

SHARE = 0.2


class HeldBackTask(HeldView):
    """A view of another task.

    Args:
        task: Original task, without a split ``architecture``.
        share: Fraction of its training samples to hold back, 0 to 1; the number is rounded, and at least one.

    Raises:
        DataError: The task has fewer than two training samples.
    """

    name: ClassVar[str] = "held_back"

    def __init__(self, task: SampleTask, share: float = SHARE) -> None:
        count = task.count("train")
        if count < 2:
            raise DataError(f"the train split has {count} samples; a search needs two, to learn and to judge.")
        super().__init__(task, canonical.digest({"task": task.digest, "held back": share}))
        held = min(max(1, round(share * count)), count - 1)
        # A fixed seed, so that all runs on a task hold back the same samples and are comparable.
        order = generator(0, "held back").permutation(count)
        self._rows = {"architecture": np.sort(order[:held]), "train": np.sort(order[held:])}

    def _place(self, split: Split, indices: NDArray[np.int64]) -> tuple[Split, NDArray[np.int64]]:
        return ("train", self._rows[split][indices]) if split in self._rows else (split, indices)

    def count(self, split: Split) -> int:
        return len(self._rows[split]) if split in self._rows else self.whole.count(split)


def with_architecture_split(task: SampleTask) -> SampleTask:
    """The task itself where it has all four splits, else a view with all four."""
    if "architecture" in task.splits:
        return task
    return HeldStretchesTask(task) if task.overlapping else HeldBackTask(task)

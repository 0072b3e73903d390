"""A view of a task with only the samples for which a fact has one of some values.

Shapes: B samples.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from evodevo import canonical
from evodevo.errors import DataError, UsageError, unknown_name
from evodevo.settings import Settings
from evodevo.tasks.base import SPLITS, Batch, SampleTask, Split


class SelectedTask(SampleTask):
    """A view of another task; inputs and outputs are those of the original, so that one network fits both.

    Args:
        task: Original task.
        group: Name of a fact in its ``group_names`` ("domain", "language").
        values: Values of the fact for which samples are kept.

    Raises:
        UsageError: The fact or a value does not exist.
        DataError: A split has no such samples.
    """

    name: ClassVar[str] = "selected"
    settings_class: ClassVar[type[Settings]] = Settings

    def __init__(self, task: SampleTask, group: str, values: Sequence[str]) -> None:
        if group not in task.group_names:
            raise unknown_name("fact about samples", group, list(task.group_names))
        names = list(task.group_names[group])
        for value in values:
            if value not in names:
                raise unknown_name(group, value, names)
        self.whole = task
        self.inputs, self.outputs, self.group_names = task.inputs, task.outputs, task.group_names
        self.digest = canonical.digest({"task": task.digest, group: list(values)})
        self.key = task.key
        wanted = [names.index(value) for value in values]
        self._rows = {split: _rows(task, split, group, wanted) for split in SPLITS}
        for split, rows in self._rows.items():
            if not len(rows):
                raise DataError(f"the {split} split has no sample whose {group} is {' or '.join(values)}.")

    @classmethod
    def open(cls, settings: Any, cache_folder: Path | None = None, key: str | None = None) -> SelectedTask:
        raise UsageError("a part of a task is made from the task, in code; it is not opened by itself.")

    def count(self, split: Split) -> int:
        return len(self._rows[split])

    def fetch(self, split: Split, indices: NDArray[np.int64]) -> Batch:
        return self.whole.fetch(split, self._rows[split][indices])

    def groups(self, split: Split, indices: NDArray[np.int64]) -> dict[str, NDArray[np.int64]]:
        return self.whole.groups(split, self._rows[split][indices])

    def show(self, split: Split, index: int) -> dict[str, str]:
        return self.whole.show(split, int(self._rows[split][index]))

    def describe(self) -> dict[str, Any]:
        return {**self.whole.describe(), "digest": self.digest}


def _rows(task: SampleTask, split: Split, group: str, wanted: list[int]) -> NDArray[np.int64]:
    values = task.groups(split, np.arange(task.count(split)))[group]
    return np.flatnonzero(np.isin(values, wanted))

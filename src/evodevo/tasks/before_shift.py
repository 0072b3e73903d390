"""A view of a task as it is before a shift of its data: some classes, or one of its inputs, are not there yet.

Validation and test are those of the task, since what counts is what a network can do after the shift.

Shapes: B samples.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from evodevo import canonical
from evodevo.errors import UsageError, unknown_name
from evodevo.randomness import generator
from evodevo.settings import Settings
from evodevo.tasks.base import OutputSpec, SampleTask, Split
from evodevo.tasks.inputs import Batch

ShiftKind = Literal["classes", "modality"]
"""What appears at the shift: the second half of the classes, or an input."""
EARLY: tuple[Split, ...] = ("train", "architecture")
"""Splits that are other ones before the shift."""
READ_AT_ONCE = 4096
ABSENT = "(none)"


class BeforeShiftTask(SampleTask):
    """A view of another task, which is what it becomes at the shift.

    Training samples keep their indices, so that a memory of samples means the same ones after the shift; ``draw`` and
    ``batch`` give only those that are there already. The split ``architecture`` has these alone.

    Args:
        task: Original task, with a split ``architecture``.
        kind: What appears at the shift.
        lacks: Name of the input that appears, the last one if left out; None for classes.

    Raises:
        UsageError: The task has nothing of that kind that could appear.
    """

    name: ClassVar[str] = "before_shift"
    settings_class: ClassVar[type[Settings]] = Settings

    def __init__(self, task: SampleTask, kind: ShiftKind, lacks: str | None = None) -> None:
        self.whole = task
        self.splits, self.inputs, self.outputs = task.splits, task.inputs, task.outputs
        self.group_names = task.group_names
        self.lacks = appearing_input(task, lacks) if kind == "modality" else None
        self.classes = first_classes(task, lacks) if kind == "classes" else ()
        self.digest = canonical.digest({"task": task.digest, "lacks": self.lacks, "classes": list(self.classes)})
        self.key = task.key
        self._rows = _rows_of(task, len(self.classes)) if kind == "classes" else {}

    @classmethod
    def open(cls, settings: Any, cache_folder: Path | None = None, key: str | None = None) -> BeforeShiftTask:
        raise UsageError("a task before a shift is made from the task, in code; it is not opened by itself.")

    def _place(self, split: Split, indices: NDArray[np.int64]) -> NDArray[np.int64]:
        return self._rows[split][indices] if split == "architecture" and split in self._rows else indices

    def count(self, split: Split) -> int:
        if split == "architecture" and split in self._rows:
            return len(self._rows[split])
        return self.whole.count(split)

    def draw(self, split: Split, seed: int, step: int, size: int) -> NDArray[np.int64]:
        if split != "train" or split not in self._rows:
            return self.whole.draw(split, seed, step, size)
        rows = self._rows[split]
        return rows[generator(seed, step, f"samples/{split}").integers(0, len(rows), size=size)]

    def fetch(self, split: Split, indices: NDArray[np.int64]) -> Batch:
        batch = self.whole.fetch(split, self._place(split, indices))
        return without(batch, self.lacks) if self.lacks is not None and split in EARLY else batch

    def groups(self, split: Split, indices: NDArray[np.int64]) -> dict[str, NDArray[np.int64]]:
        return self.whole.groups(split, self._place(split, indices))

    def show(self, split: Split, index: int) -> dict[str, str]:
        (place,) = self._place(split, np.asarray([index]))
        words = self.whole.show(split, int(place))
        return {**words, self.lacks: ABSENT} if self.lacks is not None and split in EARLY else words

    def describe(self) -> dict[str, Any]:
        return {**self.whole.describe(), "digest": self.digest}


def without(batch: Batch, name: str) -> Batch:
    """The samples of a batch without an input: its numbers are 0, nothing of it is real, and it is not present."""
    mask = f"{name}/mask"
    absent = {name: np.zeros_like(batch[name]), f"{name}/present": np.zeros(len(batch[name]), np.bool_)}
    if mask in batch:
        absent[mask] = np.zeros_like(batch[mask])
    return {**batch, **absent}


def appearing_input(task: SampleTask, lacks: str | None) -> str:
    """Name of the input that appears at a shift.

    Raises:
        UsageError: The task has one input, or none of that name.
    """
    names = [spec.name for spec in task.inputs]
    if len(names) < 2:
        raise UsageError(f"a modality can appear where a task has two; this one has only {names[0]}.")
    if lacks is not None and lacks not in names:
        raise unknown_name("input", lacks, names)
    return names[-1] if lacks is None else lacks


def first_classes(task: SampleTask, lacks: str | None = None) -> tuple[str, ...]:
    """Names of the classes that are there before a shift: the first half, rounded up.

    Raises:
        UsageError: The task asks for something else than one class, or there would be one class only.
    """
    if lacks is not None:
        raise UsageError(f"shift.lacks names an input, {lacks}, which goes with shift.kind=modality alone.")
    output = _class_output(task)
    count = (output.size + 1) // 2
    if count < 2:
        raise UsageError(
            f"of the {output.size} classes of {output.name} there would be one class only before the shift; "
            "new classes need a task with three at least."
        )
    return (output.names or tuple(map(str, range(output.size))))[:count]


def _class_output(task: SampleTask) -> OutputSpec:
    if len(task.outputs) != 1 or task.outputs[0].kind != "class":
        kinds = ", ".join(f"{spec.name} ({spec.kind})" for spec in task.outputs)
        raise UsageError(f"new classes can appear where a task asks for one class; this one asks for {kinds}.")
    return task.outputs[0]


def targets_of(task: SampleTask, split: Split) -> NDArray[np.int64]:
    """Class of each sample of a split, in the order of its indices."""
    key, count = f"{_class_output(task).name}/target", task.count(split)
    parts = [
        task.fetch(split, np.arange(start, min(start + READ_AT_ONCE, count)))[key]
        for start in range(0, count, READ_AT_ONCE)
    ]
    return np.concatenate(parts).astype(np.int64)


def _rows_of(task: SampleTask, classes: int) -> dict[Split, NDArray[np.int64]]:
    """Split -> indices of its samples of the first classes.

    Raises:
        UsageError: A split has none of these classes, or none of the others.
    """
    rows: dict[Split, NDArray[np.int64]] = {}
    for split in EARLY:
        targets = targets_of(task, split)
        old = (targets >= 0) & (targets < classes)
        for which, there in (("first", old), ("second", targets >= classes)):
            if not there.any():
                raise UsageError(f"the split {split} has no sample of the {which} half of the classes.")
        rows[split] = np.flatnonzero(old)
    return rows

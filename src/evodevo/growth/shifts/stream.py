"""The data of a training before a shift, and what appears in them."""

from __future__ import annotations

from evodevo.growth.shifts.spec import ShiftSettings
from evodevo.tasks.base import SampleTask
from evodevo.tasks.before_shift import BeforeShiftTask, appearing_input, first_classes


def data_before(task: SampleTask, shift: ShiftSettings) -> SampleTask:
    """The data until the shift; the task itself where there is none.

    Args:
        task: The data after it, with a split ``architecture``.
        shift: Settings of the shift.

    Raises:
        UsageError: The task has nothing of that kind that could appear.
    """
    return task if shift.kind is None else BeforeShiftTask(task, shift.kind, shift.lacks)


def new_words(task: SampleTask, shift: ShiftSettings) -> str:
    """What appears at a shift, in words: ``the input text``, ``5 of 10 classes``.

    Raises:
        UsageError: As for ``data_before``.
    """
    if shift.kind == "modality":
        return f"the input {appearing_input(task, shift.lacks)}"
    (output,) = task.outputs
    return f"{output.size - len(first_classes(task, shift.lacks))} of {output.size} classes"

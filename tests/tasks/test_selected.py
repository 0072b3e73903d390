"""A part of a task holds exactly the samples whose fact is one of the values."""

from __future__ import annotations

import numpy as np
import pytest

from evodevo.errors import DataError, UsageError
from evodevo.settings import validate
from evodevo.tasks.base import SPLITS
from evodevo.tasks.reasoning.pointer import PointerSettings, PointerTask
from evodevo.tasks.selected import SelectedTask

SIZES = {"train": 60, "validation": 30, "test": 30}


def whole() -> PointerTask:
    values = {"nodes": 4, "hops_max": 3, "samples": SIZES}
    return PointerTask.open(validate(PointerSettings, values, what="pointers"))


def test_the_parts_make_the_whole_and_have_its_samples() -> None:
    task = whole()
    parts = [SelectedTask(task, "hops", (value,)) for value in task.group_names["hops"]]
    for split in SPLITS:
        assert sum(part.count(split) for part in parts) == task.count(split)
        for number, part in enumerate(parts):
            places = np.arange(part.count(split))
            assert (part.groups(split, places)["hops"] == number).all()
    both = SelectedTask(task, "hops", ("1", "3"))
    assert both.count("train") == parts[0].count("train") + parts[2].count("train")
    assert len({task.digest, both.digest, *(part.digest for part in parts)}) == 5
    part = parts[1]
    rows = np.flatnonzero(task.groups("test", np.arange(task.count("test")))["hops"] == 1)
    found = part.fetch("test", np.arange(part.count("test")))
    expected = task.fetch("test", rows)
    assert all(np.array_equal(found[name], expected[name]) for name in expected)
    assert part.show("test", 0) == task.show("test", int(rows[0]))
    assert part.inputs == task.inputs
    batch = part.batch("train", 1, 2, 16)
    assert all(np.array_equal(batch[name], part.batch("train", 1, 2, 16)[name]) for name in batch)
    assert part.describe()["digest"] == part.digest


def test_what_is_not_there() -> None:
    task = whole()
    with pytest.raises(UsageError, match="colour"):
        SelectedTask(task, "colour", ("red",))
    with pytest.raises(UsageError, match="unknown hops '7'"):
        SelectedTask(task, "hops", ("7",))
    with pytest.raises(DataError, match="no sample whose hops is"):
        SelectedTask(task, "hops", ())
    with pytest.raises(UsageError, match="made from the task"):
        SelectedTask.open(None)

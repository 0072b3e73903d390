"""What is held back from training is no longer trained on, and nothing else changes."""

from __future__ import annotations

import numpy as np
import pytest

from evodevo.errors import DataError, UsageError
from evodevo.settings import Settings
from evodevo.tasks.base import ALL_SPLITS
from evodevo.tasks.held.back import HeldBackTask, with_architecture_split
from evodevo.testing.small_networks import problem


@pytest.fixture(scope="module")
def whole() -> object:
    return problem().task


def test_train_and_architecture_are_the_old_train(whole) -> None:  # type: ignore[no-untyped-def]
    task = with_architecture_split(whole)
    assert isinstance(task, HeldBackTask)
    assert task.splits == ALL_SPLITS
    assert with_architecture_split(task) is task
    assert (task.count("train"), task.count("architecture")) == (320, 80)
    parts = [task._rows["train"], task._rows["architecture"]]
    assert sorted(np.concatenate(parts).tolist()) == list(range(400))
    for split, rows in zip(("train", "architecture"), parts, strict=True):
        chosen = np.asarray([0, 7, 3])
        ours, theirs = task.fetch(split, chosen), whole.fetch("train", rows[chosen])
        assert all(np.array_equal(ours[name], theirs[name]) for name in theirs)
        assert task.show(split, 7) == whole.show("train", int(rows[7]))
        groups, expected = task.groups(split, chosen), whole.groups("train", rows[chosen])
        assert all(np.array_equal(groups[name], expected[name]) for name in expected)
    chosen = np.arange(5)
    for split in ("validation", "test"):
        assert task.count(split) == whole.count(split), "the other splits are as they were"
        theirs = whole.fetch(split, chosen)
        assert all(np.array_equal(one, theirs[name]) for name, one in task.fetch(split, chosen).items())
    assert task.describe()["digest"] == task.digest != whole.digest


def test_it_is_made_not_opened_and_needs_two_samples(whole, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(UsageError, match="in code"):
        HeldBackTask.open(Settings())
    monkeypatch.setattr(type(whole), "count", lambda self, split: 1)
    with pytest.raises(DataError, match="needs two"):
        HeldBackTask(whole)

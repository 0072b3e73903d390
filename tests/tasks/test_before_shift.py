"""The data before a shift: what is not there yet, what is as ever, and which tasks have nothing to appear."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from evodevo.errors import UsageError
from evodevo.tasks.base import ALL_SPLITS, TASKS, OutputSpec, SampleTask
from evodevo.tasks.before_shift import BeforeShiftTask, targets_of
from evodevo.tasks.held.back import with_architecture_split
from evodevo.testing.small_networks import problem


def pointer() -> SampleTask:
    return with_architecture_split(problem().open_task({}))


def answering(output: OutputSpec) -> SampleTask:
    """The same samples under another output."""
    task = pointer()
    task.outputs = (output,)
    return task


def asked() -> SampleTask:
    """Images and questions."""
    kind = TASKS.get("digits_questions")
    return with_architecture_split(kind.open(kind.settings_class.model_validate({"questions": 4})))


@pytest.fixture(scope="module")
def both() -> tuple[SampleTask, BeforeShiftTask]:
    task = pointer()
    return task, BeforeShiftTask(task, "classes")


@pytest.fixture(scope="module")
def questions() -> tuple[SampleTask, BeforeShiftTask]:
    task = asked()
    return task, BeforeShiftTask(task, "modality")


def drawn(task: SampleTask, steps: int = 50) -> set[int]:
    """Classes of many training batches."""
    return {int(one) for step in range(steps) for one in task.batch("train", 3, step, 16)["answer/target"]}


def test_no_sample_of_a_new_class_is_drawn_before_and_some_are_after(
    both: tuple[SampleTask, BeforeShiftTask],
) -> None:
    task, before = both
    assert drawn(before) == {0, 1}
    assert drawn(task) == {0, 1, 2, 3}
    chosen = np.arange(before.count("architecture"))
    assert set(before.fetch("architecture", chosen)["answer/target"]) == {0, 1}
    assert before.count("architecture") == int((targets_of(task, "architecture") < 2).sum())


def test_every_sample_of_the_first_classes_can_be_drawn(both: tuple[SampleTask, BeforeShiftTask]) -> None:
    task, before = both
    places = {int(place) for step in range(200) for place in before.draw("train", 3, step, 64)}
    assert places == set(np.flatnonzero(targets_of(task, "train") < 2))


def test_a_batch_depends_on_seed_and_step_alone(both: tuple[SampleTask, BeforeShiftTask]) -> None:
    task, before = both
    again = BeforeShiftTask(pointer(), "classes")
    for step in (0, 7):
        assert np.array_equal(before.draw("train", 3, step, 16), again.draw("train", 3, step, 16))
    assert not np.array_equal(before.draw("train", 3, 0, 16), before.draw("train", 4, 0, 16))
    assert not np.array_equal(before.draw("train", 3, 0, 16), before.draw("train", 3, 1, 16))
    assert before.digest == again.digest != task.digest


def same(one: Any, other: Any) -> bool:
    return one.keys() == other.keys() and all(np.array_equal(one[key], other[key]) for key in one)


@pytest.mark.parametrize("which", ["both", "questions"])
def test_validation_and_test_are_those_after_the_shift(which: str, request: pytest.FixtureRequest) -> None:
    task, before = request.getfixturevalue(which)
    for split in ALL_SPLITS[2:]:
        assert before.count(split) == task.count(split)
        chosen = np.arange(task.count(split))
        assert same(before.fetch(split, chosen), task.fetch(split, chosen))
        assert np.array_equal(before.draw(split, 3, 5, 8), task.draw(split, 3, 5, 8))


def test_a_training_sample_keeps_its_index(both: tuple[SampleTask, BeforeShiftTask]) -> None:
    """So that what was remembered before the shift is the same sample after it."""
    task, before = both
    chosen = before.draw("train", 3, 0, 16)
    assert same(before.fetch("train", chosen), task.fetch("train", chosen))
    assert before.show("train", int(chosen[0])) == task.show("train", int(chosen[0]))


@pytest.mark.parametrize("split", ["train", "architecture"])
@pytest.mark.parametrize("lacks", ["text", "image"])
def test_an_absent_input_is_as_a_task_has_it_and_the_rest_is_as_ever(split: Any, lacks: str) -> None:
    task = asked()
    before = BeforeShiftTask(task, "modality", lacks)
    assert before.count(split) == task.count(split)
    chosen = np.arange(12)
    batch, whole = before.fetch(split, chosen), task.fetch(split, chosen)
    assert not batch[f"{lacks}/present"].any()
    assert not batch[lacks].any()
    assert whole[lacks].any()
    assert f"{lacks}/mask" not in batch or not batch[f"{lacks}/mask"].any()
    assert batch[lacks].shape == whole[lacks].shape
    assert batch[lacks].dtype == whole[lacks].dtype
    others = [name for name in whole if name not in (lacks, f"{lacks}/mask")]
    assert same({name: batch[name] for name in others}, {name: whole[name] for name in others})
    assert before.show(split, 0)[lacks] == "(none)"


def test_the_last_input_appears_where_none_is_named(questions: tuple[SampleTask, BeforeShiftTask]) -> None:
    assert questions[1].lacks == "text"


def test_what_cannot_appear_is_refused() -> None:
    task = pointer()
    with pytest.raises(UsageError, match="a modality can appear where a task has two; this one has only text"):
        BeforeShiftTask(task, "modality")
    with pytest.raises(UsageError, match="there would be one class only before the shift"):
        BeforeShiftTask(answering(OutputSpec("answer", "class", 2)), "classes")
    with pytest.raises(UsageError, match="'sound'"):
        BeforeShiftTask(asked(), "modality", "sound")
    with pytest.raises(UsageError, match=r"goes with shift\.kind=modality alone"):
        BeforeShiftTask(task, "classes", "text")
    with pytest.raises(UsageError, match="where a task asks for one class"):
        BeforeShiftTask(answering(OutputSpec("topics", "labels", 4)), "classes")
    with pytest.raises(UsageError, match="no sample of the second half of the classes"):
        BeforeShiftTask(answering(OutputSpec("answer", "class", 9)), "classes")

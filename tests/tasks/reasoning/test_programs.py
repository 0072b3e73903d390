"""The programs task: answers are those of the operations, and no held-out program is trained on."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from evodevo.errors import UsageError
from evodevo.settings import validate
from evodevo.tasks.generated import SplitSizes
from evodevo.tasks.reasoning.programs import ProgramsSettings, ProgramsTask

SIZES = SplitSizes(train=20_000, validation=900, test=1_800)


def opened(**changes: Any) -> ProgramsTask:
    return ProgramsTask.open(ProgramsSettings(**{"operations": 5, "values": 6, "samples": SIZES, **changes}))


def read(task: ProgramsTask, split: Any) -> list[tuple[int, tuple[int, ...], int]]:
    """Value, program and answer of every sample, from what is shown of it."""
    samples = []
    for place in range(task.count(split)):
        shown = task.show(split, place)
        value, *codes = (int(number) for number in re.findall(r"\d+", shown["program"]))
        samples.append((value, tuple(codes), int(shown["answer"])))
    return samples


def test_a_program_is_its_operations_one_after_the_other() -> None:
    task = opened()
    single: dict[tuple[int, int], int] = {}
    for value, codes, answer in read(task, "train"):
        if len(codes) == 1:
            assert single.setdefault((codes[0], value), answer) == answer
    assert len(single) == 5 * 6, "every operation is asked of every value"
    for code in range(5):
        assert len({single[code, value] for value in range(6)}) == 6, "a permutation"
    for split in task.splits:
        for value, codes, answer in read(task, split):
            for code in codes:
                value = single[code, value]
            assert value == answer


def test_programs_of_a_split_are_in_no_other_one_and_training_shows_every_operation_in_every_slot() -> None:
    task = opened()
    programs = {split: {codes for _, codes, _ in read(task, split)} for split in task.splits}
    longest = {split: {codes for codes in found if len(codes) == 3} for split, found in programs.items()}
    assert all(programs[split] == longest[split] for split in ("architecture", "validation", "test"))
    assert sum(len(found) for found in longest.values()) == len(set().union(*longest.values())) == 5**3
    assert {split: len(found) for split, found in longest.items()} == task.describe()["programs"]
    assert len(longest["train"]) == 5**3 - 5 * 6, "a quarter of the 25 programs with the same last operation, rounded"
    assert len(longest["test"]) >= max(len(longest["validation"]), len(longest["architecture"])) > 0
    for slot in range(3):
        assert {codes[slot] for codes in longest["train"]} == set(range(5))


def test_codes_are_of_the_value_and_of_each_slot() -> None:
    task = opened(length=4, held_out=0.1)
    for split in task.splits:
        places = np.arange(300)
        batch, lengths = task.fetch(split, places), task.groups(split, places)["length"] + 1
        assert batch["program"].shape == (300, 6 + 4 * (5 + 1))
        codes = batch["program"][:, 6:].reshape(300, 4, 6)
        assert (batch["program"][:, :6].sum(1) == 1).all()
        assert (codes.sum(2) == 1).all()
        assert np.array_equal((codes.argmax(2) != task.nop).sum(1), lengths)
        assert np.array_equal(codes.argmax(2) == task.nop, np.arange(4) >= lengths[:, None]), "nop comes last"
        if split == "train":
            assert np.bincount(lengths, minlength=5)[1:].min() > 300 / 4 / 2
        else:
            assert (lengths == 4).all()


def test_shortcuts_do_not_help() -> None:
    for split in ("architecture", "validation", "test"):
        found = ProgramsTask.open(ProgramsSettings()).baselines(split)  # type: ignore[arg-type]
        assert max(found.values()) < 0.2
    trained = opened().baselines("train")
    assert trained["the first operation alone"] > 1 / 3, "programs of one operation are trained on"
    assert trained["the last operation alone"] > 1 / 3


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"operations": 2, "length": 2}, "leaves 0 programs .* take a larger share"),
        ({"operations": 64, "length": 4}, "at most 1048576 are listed"),
        ({"held_out": 0.6}, "held_out"),
    ],
)
def test_what_cannot_be_divided_is_refused(values: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=f"(?i){words}"):
        validate(ProgramsSettings, values, what="x")

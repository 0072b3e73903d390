"""Recall tasks: every answer is what a plain reader of the sequence finds, and a guess is right as often as stated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from evodevo.tasks.base import NO_TARGET, TASKS
from evodevo.tasks.recall.base import RecallSettings, RecallTask
from evodevo.tasks.recall.copying import SelectiveCopyingSettings
from evodevo.tasks.recall.mqar import MQARSettings
from evodevo.tasks.recall.noisy import NoisyRecallSettings

SIZES = {"train": 60, "validation": 400, "test": 2}


def opened(name: str, **values: Any) -> RecallTask:
    row: Any = TASKS.get(name)
    return row.open(row.settings_class(**{"samples": SIZES, **values}))


def samples(task: RecallTask, count: int = 60) -> list[tuple[list[int], dict[int, int]]]:
    """Tokens of a sequence, and place -> what is asked for there."""
    batch = task.fetch("train", np.arange(count))
    asked = [{n: t for n, t in enumerate(row.tolist()) if t != NO_TARGET} for row in batch["next/target"]]
    return list(zip(batch["text"].tolist(), asked, strict=True))


def mqar(tokens: list[int]) -> dict[int, int]:
    keys = range(1, 32)
    values = {tokens[n]: tokens[n + 1] for n in range(0, 10, 2)}
    return {n: values[token] for n, token in enumerate(tokens) if n >= 10 and token in keys}


def noisy(tokens: list[int]) -> dict[int, int]:
    seen: dict[int, int] = {}
    found = {}
    for n in range(0, len(tokens) - 1, 2):
        if tokens[n] < 24:
            if tokens[n] in seen:
                found[n] = seen[tokens[n]]
            assert seen.setdefault(tokens[n], tokens[n + 1]) == tokens[n + 1]
    return found


def induction(tokens: list[int]) -> dict[int, int]:
    assert tokens[-1] == 0
    return {len(tokens) - 1: tokens[tokens.index(0) + 1]}


def copying(tokens: list[int]) -> dict[int, int]:
    mark = tokens.index(1)
    content = [token for token in tokens[:mark] if token]
    assert tokens[mark + 1 :] == content[:-1]
    return {mark + n: token for n, token in enumerate(content)}


@pytest.mark.parametrize(
    ("name", "values", "reader"),
    [
        ("mqar", {"pairs": 5, "gap": 7, "length": 41}, mqar),
        ("noisy_recall", {"length": 41}, noisy),
        ("noisy_recall", {"noise": 0.0}, noisy),
        ("induction", {"length": 20}, induction),
        ("selective_copying", {"tokens": 6, "length": 20}, copying),
    ],
)
def test_every_answer_stands_earlier_in_the_sequence(
    name: str, values: dict[str, Any], reader: Callable[[list[int]], dict[int, int]]
) -> None:
    task = opened(name, **values)
    for tokens, asked in samples(task):
        assert len(tokens) == task.settings.length
        assert max(tokens) < task.settings.vocabulary
        assert reader(tokens) == asked
    assert any(asked for _, asked in samples(task))


def test_each_pair_of_mqar_is_asked_for_once_behind_the_gap() -> None:
    for tokens, asked in samples(opened("mqar", pairs=4, gap=20)):
        assert len(asked) == 4
        assert min(asked) >= 8 + 20
        assert tokens[8:28] == [0] * 20
        assert len({tokens[n] for n in asked}) == 4


@pytest.mark.parametrize("name", ["mqar", "noisy_recall", "induction", "selective_copying"])
def test_guesses_are_right_as_often_as_stated(name: str) -> None:
    task = opened(name, length=32)
    answers = task.fetch("validation", np.arange(400))["next/target"]
    answers = answers[answers != NO_TARGET]
    any_guess = min(task.baselines("validation").values())
    counts = np.bincount(answers, minlength=task.settings.vocabulary)
    assert (counts > 0).sum() == round(1 / any_guess)
    assert counts.max() / len(answers) < 2.5 * any_guess  # no answer is common enough to be worth a guess


@pytest.mark.parametrize(
    ("kind", "values", "words"),
    [
        (MQARSettings, {"pairs": 17}, "need a length of 68"),
        (MQARSettings, {"pairs": 4, "vocabulary": 8}, "need a vocabulary of 10"),
        (NoisyRecallSettings, {"pairs": 25}, "raise the vocabulary"),
        (SelectiveCopyingSettings, {"tokens": 33}, "need a length of 66"),
        (RecallSettings, {"length": 4}, "greater than or equal to 8"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(kind: Any, values: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        kind(**values)

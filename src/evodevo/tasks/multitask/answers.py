"""Derived questions about the samples of a classification task, such as parity or a subset of the classes.

One set of images gives several related tasks that way (docs/spec/munet.md#experiments: scikit-learn's digits by
class, by parity, above 4, with rotated labels), so that a multitask system can be tried on a machine without a network.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from evodevo.errors import DataError, unknown_name

Question = Literal["class", "parity", "upper_half"]
"""The class itself; whether its index among the classes is even or odd; whether it is in the upper half of them (for
digits: above 4)."""


@dataclass(frozen=True)
class Answers:
    """The answer to each class of the source.

    Attributes:
        names: Names of the answers.
        table: Index of the answer to each class, (classes of the source,); -1 where its samples are left out.
    """

    names: tuple[str, ...]
    table: NDArray[np.int64]


def answers(classes: Sequence[str], question: Question, rotate: int = 0, only: Sequence[str] = ()) -> Answers:
    """The answers to a question.

    Args:
        classes: Names of the source's classes, in order.
        question: Question about the remaining classes.
        rotate: Number added to each answer's index, modulo the number of answers: the same question with other indices.
        only: Classes to keep, in the source's order; empty = all.

    Raises:
        UsageError: A class does not exist.
        DataError: There are fewer than two answers.
    """
    for name in only:
        if name not in classes:
            raise unknown_name("class", name, classes)
    kept = [index for index, name in enumerate(classes) if not only or name in only]
    names: tuple[str, ...] = tuple(classes[index] for index in kept)
    numbers = list(range(len(kept)))
    if question == "parity":
        names, numbers = ("even", "odd"), [number % 2 for number in numbers]
    elif question == "upper_half":
        names, numbers = ("lower", "upper"), [int(2 * number >= len(kept)) for number in numbers]
    if len(set(numbers)) < 2:
        raise DataError(f"a task needs two answers at least; of the classes {', '.join(classes)} one is left.")
    count = len(names)
    table = np.full(len(classes), -1, np.int64)
    table[kept] = (np.asarray(numbers) + rotate) % count
    return Answers(tuple(names[(number - rotate) % count] for number in range(count)), table)

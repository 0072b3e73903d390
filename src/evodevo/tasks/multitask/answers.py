"""Tasks made of a task: other questions about the same samples.

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
"""Which class; whether its place among the classes is even or odd; whether it lies in the upper half of them (of
digits: above 4)."""


@dataclass(frozen=True)
class Answers:
    """What becomes of each class.

    Attributes:
        names: of the answers.
        table: (classes of the source,) the answer to each; -1 where its samples are left out.
    """

    names: tuple[str, ...]
    table: NDArray[np.int64]


def answers(classes: Sequence[str], question: Question, rotate: int = 0, only: Sequence[str] = ()) -> Answers:
    """The answers that a question has.

    Args:
        classes: names of the source's classes, in order.
        question: about the classes that are left.
        rotate: answer k is called k + rotate: the same question with other numbers for its answers.
        only: classes that are kept, in the source's order; all where it is empty.

    Raises:
        UsageError: a class that is none.
        DataError: fewer than two answers.
    """
    for name in only:
        if name not in classes:
            raise unknown_name("class", name, classes)
    kept = [place for place, name in enumerate(classes) if not only or name in only]
    names: tuple[str, ...] = tuple(classes[place] for place in kept)
    found = list(range(len(kept)))
    if question == "parity":
        names, found = ("even", "odd"), [place % 2 for place in found]
    elif question == "upper_half":
        names, found = ("lower", "upper"), [int(2 * place >= len(kept)) for place in found]
    if len(set(found)) < 2:
        raise DataError(f"a task wants two answers at least; of the classes {', '.join(classes)} one is left.")
    count = len(names)
    table = np.full(len(classes), -1, np.int64)
    table[kept] = (np.asarray(found) + rotate) % count
    return Answers(tuple(names[(place - rotate) % count] for place in range(count)), table)

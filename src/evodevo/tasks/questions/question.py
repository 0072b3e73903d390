"""Questions with options, and sets of them: torch-free values.

Kinds of sets: ``choice`` asks which option is likeliest; ``continuation`` asks whether greedy decoding writes the one
continuation (the last word of LAMBADA).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Literal

import numpy as np

from evodevo import canonical
from evodevo.errors import UsageError

Kind = Literal["choice", "continuation"]

NORMALISED = frozenset({"hellaswag", "arc_challenge"})
"""Sets whose score in STAR's Table 5.1 is ``acc_norm``; that of all others is ``acc``."""


@dataclass(frozen=True)
class Option:
    """One option.

    Attributes:
        context: Text before the option; may be empty.
        continuation: Text whose likelihood counts, with the white space that separates it from the context.
        size: Number of UTF-8 bytes of the option as the file has it, by which ``acc_norm`` divides.
    """

    context: str
    continuation: str
    size: int


@dataclass(frozen=True)
class Question:
    """One question.

    Attributes:
        options: Options of the question; one in sets of continuations.
        answer: Place of the right option, from 0.
        group: Name of a part of the set that is scored by itself too; empty for none.
    """

    options: tuple[Option, ...]
    answer: int
    group: str = ""


@dataclass(frozen=True)
class QuestionSet:
    """A set of questions.

    Attributes:
        name: Name in tables, from the file's name.
        source: Path of the file.
        kind: Kind of the questions: choice or continuation.
        questions: Questions in the order of the file.
    """

    name: str
    source: str
    kind: Kind
    questions: tuple[Question, ...]

    @property
    def digest(self) -> str:
        """64 hexadecimal digits over all texts and answers; the name of the file has no part in it."""
        questions = [
            [[[o.context, o.continuation, o.size] for o in question.options], question.answer, question.group]
            for question in self.questions
        ]
        return canonical.digest([self.kind, questions])

    @property
    def chance(self) -> float:
        """Expected accuracy of a uniform draw among the options; 0 for continuations."""
        if self.kind == "continuation":
            return 0.0
        return fmean(1 / len(question.options) for question in self.questions)

    @property
    def main_metric(self) -> str:
        """``acc_norm`` for HellaSwag and ARC-Challenge, else ``acc`` (STAR, Table 5.1)."""
        return "acc_norm" if self.kind == "choice" and self.name in NORMALISED else "acc"

    def first(self, count: int | None) -> QuestionSet:
        """At most ``count`` questions, spread evenly over the file; all for None.

        Raises:
            UsageError: ``count`` is below 1.
        """
        if count is not None and count < 1:
            raise UsageError(f"the limit of questions is {count}; it must be at least 1.")
        if count is None or count >= len(self.questions):
            return self
        places = np.arange(count) * len(self.questions) // count
        return replace(self, questions=tuple(self.questions[place] for place in places))

    def groups(self) -> dict[str, list[int]]:
        """Name of a group -> places of its questions, in the order of the file; empty where none has a group."""
        places: dict[str, list[int]] = {}
        for place, question in enumerate(self.questions):
            if question.group:
                places.setdefault(question.group, []).append(place)
        return places


def name_of(file_name: str, suffixes: Sequence[str]) -> str:
    """The name of a set: that of its file without suffixes."""
    for suffix in reversed(suffixes):
        file_name = file_name.removesuffix(suffix)
    return file_name

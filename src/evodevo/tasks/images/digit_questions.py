"""Questions about a digit, their wordings, and frequencies at which neither image nor question predicts the answer.

A question is a set of digits for which the answer is yes. The table of the frequencies of (question, digit) pairs is
fitted (Sinkhorn 1964) so that both answers are equally frequent for every digit and for every question.

Shapes: Q questions, 10 digits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Mood = Literal["question", "statement"]
DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
ANSWERS = ("no", "yes")

_ROUNDS = 500


@dataclass(frozen=True)
class DigitQuestion:
    """One question.

    Attributes:
        name: Name for display: "even", "after six".
        family: Key of its wordings.
        word: Word that fills the gap in its wordings.
        yes: Digits for which the answer is yes.
        asked_of: Digits about which it may be asked.
    """

    name: str
    family: str
    word: str
    yes: frozenset[int]
    asked_of: frozenset[int] = frozenset(range(10))


@dataclass(frozen=True)
class Wordings:
    """Wordings of a question: those of all splits, and those of the test split alone, made of words from training."""

    seen: tuple[str, ...]
    unseen: tuple[str, ...]


def _questions() -> tuple[DigitQuestion, ...]:
    every = frozenset(range(10))
    asked = [DigitQuestion(name, "is", name, frozenset({digit})) for digit, name in enumerate(DIGITS)]
    for digit, name in enumerate(DIGITS):
        if digit < 9:
            asked.append(DigitQuestion(f"after {name}", "after", name, frozenset({digit + 1}), every - {0}))
        if digit > 0:
            asked.append(DigitQuestion(f"before {name}", "before", name, frozenset({digit - 1}), every - {9}))
    even, prime, loop = frozenset({0, 2, 4, 6, 8}), frozenset({2, 3, 5, 7}), frozenset({0, 6, 8, 9})
    asked += [DigitQuestion("even", "parity", "even", even), DigitQuestion("odd", "parity", "odd", every - even)]
    asked += [
        DigitQuestion("prime", "prime", "prime", prime),
        DigitQuestion("not prime", "prime", "not prime", every - prime),
    ]
    asked += [
        DigitQuestion("a loop", "loop", "a loop", loop),
        DigitQuestion("no loop", "loop", "no loop", every - loop),
    ]
    for bound in (2, 4, 6):
        above = frozenset(range(bound + 1, 10))
        asked.append(DigitQuestion(f"larger than {DIGITS[bound]}", "larger", DIGITS[bound], above))
        asked.append(DigitQuestion(f"smaller than {DIGITS[bound + 1]}", "smaller", DIGITS[bound + 1], every - above))
    return tuple(asked)


QUESTIONS = _questions()
"""All questions with the answers yes and no."""

SUMS = ("which digit is it", *(f"plus {name}" for name in DIGITS[1:]))
"""Questions whose answer is a digit: the last digit of the sum."""

_SHARES = {"is": 0.2, "after": 0.1, "before": 0.1, "parity": 0.15, "prime": 0.1, "loop": 0.1, "larger": 0.125}
_SHARES["smaller"] = _SHARES["larger"]
"""Share of each family among all yes-or-no questions, 0 to 1."""

_ADJECTIVE = {
    "question": Wordings(("is it {}?", "is this digit {}?"), ("is this {}?",)),
    "statement": Wordings(("it is {}.", "this digit is {}."), ("this is {}.",)),
}
_WORDINGS: dict[str, dict[str, Wordings]] = {
    "is": {
        "question": Wordings(("is it {}?", "is this the digit {}?", "does it show {}?"), ("does this digit show {}?",)),
        "statement": Wordings(("it is {}.", "this is the digit {}.", "it shows {}."), ("this digit shows {}.",)),
    },
    "after": {
        "question": Wordings(("is it one more than {}?", "does it come right after {}?"), ("is it right after {}?",)),
        "statement": Wordings(("it is one more than {}.", "it comes right after {}."), ("it is right after {}.",)),
    },
    "before": {
        "question": Wordings(("is it one less than {}?", "does it come right before {}?"), ("is it right before {}?",)),
        "statement": Wordings(("it is one less than {}.", "it comes right before {}."), ("it is right before {}.",)),
    },
    "parity": _ADJECTIVE,
    "prime": _ADJECTIVE,
    "loop": {
        "question": Wordings(("does it have {}?", "does this digit have {}?"), ("does this have {}?",)),
        "statement": Wordings(("it has {}.", "this digit has {}."), ("this has {}.",)),
    },
    "larger": {
        "question": Wordings(("is it larger than {}?", "is this digit greater than {}?"), ("is it greater than {}?",)),
        "statement": Wordings(("it is larger than {}.", "this digit is greater than {}."), ("it is greater than {}.",)),
    },
    "smaller": {
        "question": Wordings(("is it smaller than {}?", "is this digit less than {}?"), ("is it less than {}?",)),
        "statement": Wordings(("it is smaller than {}.", "this digit is less than {}."), ("it is less than {}.",)),
    },
}
_WHICH = Wordings(("which digit is it?", "which digit does it show?"), ("which digit is this?",))
_PLUS = Wordings(
    ("what is the last digit of it plus {}?", "which digit is last in this plus {}?"),
    ("which digit is the last of it plus {}?",),
)


def wordings(question: DigitQuestion, mood: Mood) -> Wordings:
    """The wordings of a question, or of the statement that its answer is yes."""
    ways = _WORDINGS[question.family][mood]
    return Wordings(_filled(ways.seen, question.word), _filled(ways.unseen, question.word))


def wordings_of_sum(added: int) -> Wordings:
    """The wordings of the question for the last digit of the digit plus ``added`` (0 to 9)."""
    if added == 0:
        return _WHICH
    return Wordings(_filled(_PLUS.seen, DIGITS[added]), _filled(_PLUS.unseen, DIGITS[added]))


def frequencies(images: NDArray[np.integer]) -> NDArray[np.float64]:
    """The frequency of each pair of question and digit, by answer, as a share of all.

    Args:
        images: Number of images of each digit, (10,).

    Returns:
        Shares, (Q, 10, 2); the last axis is the answer. Each digit has its share of the images, half of it with either
        answer; each question its share of its family, half of it with either answer, as far as the images allow.
    """
    yes = np.asarray([[digit in question.yes for digit in range(10)] for question in QUESTIONS])
    asked = np.asarray([[digit in question.asked_of for digit in range(10)] for question in QUESTIONS])
    sizes = {family: sum(question.family == family for question in QUESTIONS) for family in _SHARES}
    of_question = np.asarray([_SHARES[question.family] / sizes[question.family] for question in QUESTIONS]) / 2
    of_digit = images / images.sum() / 2
    share = np.stack([asked & ~yes, asked & yes], axis=2).astype(np.float64)
    # Scaled alternately to the sums of the questions and to those of the digits, which converges to both (Sinkhorn).
    for _ in range(_ROUNDS):
        share *= _ratio(of_question[:, None], share.sum(axis=1))[:, None, :]
        share *= _ratio(of_digit[:, None], share.sum(axis=0))
    return share


def _filled(ways: Sequence[str], word: str) -> tuple[str, ...]:
    return tuple(way.format(word) for way in ways)


def _ratio(wanted: NDArray[np.float64], there: NDArray[np.float64]) -> NDArray[np.float64]:
    """Elementwise quotient; 0 where the divisor is 0: there are no questions about a digit without images."""
    ratio: NDArray[np.float64] = np.divide(wanted, there, out=np.zeros_like(there), where=there > 0)
    return ratio

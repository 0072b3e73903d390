"""From log-likelihoods of options to accuracies with their intervals.

``acc`` takes the option of the largest log-likelihood, ``acc_norm`` that of the largest log-likelihood per byte of the
option: the definitions of EleutherAI's lm-evaluation-harness, except that it counts characters of the option, which
are its bytes in English text, and that it gives a tie to the first option. Here a tie counts 1/k where k options, the
right one among them, are level: else a model without any skill is right wherever the answer comes first.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from evodevo.tasks.questions.question import QuestionSet

LEVEL_Z = 1.959963984540054
"""Quantile of the normal distribution for a two-sided interval of 95 %."""
_TIED = 1e-6
"""Relative difference below which log-likelihoods are level: sums in another order differ by less."""

Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class Likelihood:
    """The likelihood of one option.

    Attributes:
        log_likelihood: Log-likelihood of all tokens of the option together, in nats.
        greedy: Whether greedy decoding writes exactly the option.
    """

    log_likelihood: float
    greedy: bool


@dataclass(frozen=True)
class Accuracy:
    """A share of right answers, 0 to 1.

    Attributes:
        value: Share of right answers, 0 to 1.
        low, high: Ends of the 95 % interval of Wilson's score (Wilson 1927).
        count: Number of questions.
    """

    value: float
    low: float
    high: float
    count: int

    def to_json(self) -> dict[str, float]:
        """The fields by name."""
        return asdict(self)

    @classmethod
    def of(cls, credits: Numbers) -> Accuracy:
        """The accuracy of the credits (0 to 1) of single questions, of which there is at least one."""
        share, count = float(np.mean(credits)), len(credits)
        return cls(share, *wilson_interval(share, count), count)


def wilson_interval(share: float, count: int) -> tuple[float, float]:
    """The 95 % interval of a share among ``count`` independent questions (Wilson 1927)."""
    z2 = LEVEL_Z**2
    centre = (share + z2 / (2 * count)) / (1 + z2 / count)
    half = LEVEL_Z / (1 + z2 / count) * math.sqrt(share * (1 - share) / count + z2 / (4 * count**2))
    # Rounding may put the end of the interval of 0 or 1 beyond it.
    return max(0.0, min(centre - half, share)), min(1.0, max(centre + half, share))


def credits(asked: QuestionSet, answers: Sequence[Sequence[Likelihood]]) -> dict[str, Numbers]:
    """Metric -> credit of each question, 0 to 1: ``acc``, and ``acc_norm`` for choices.

    Args:
        asked: The questions.
        answers: Likelihoods of the options of each question.
    """
    if asked.kind == "continuation":
        return {"acc": np.asarray([float(options[0].greedy) for options in answers])}
    plain, normalised = [], []
    for question, options in zip(asked.questions, answers, strict=True):
        values = np.asarray([option.log_likelihood for option in options])
        sizes = np.asarray([option.size for option in question.options])
        plain.append(_credit(values, question.answer))
        normalised.append(_credit(values / sizes, question.answer))
    return {"acc": np.asarray(plain), "acc_norm": np.asarray(normalised)}


def _credit(values: Numbers, answer: int) -> float:
    best = values.max()
    if not math.isfinite(best):  # a model that gives NaN, or probability 0 to all, chooses nothing
        return 0.0
    level = values >= best - _TIED * abs(best)
    return float(level[answer] / level.sum())

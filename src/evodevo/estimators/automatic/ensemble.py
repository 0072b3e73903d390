"""Weights of an ensemble by greedy selection on held out samples (Caruana et al., ICML 2004).

Legend: n held out samples, C classes or labels, 1 of a quantity.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from evodevo.estimators.automatic.scores import log_loss
from evodevo.tasks.rows.targets import Answers

ROUNDS = 25


def greedy(
    chances: Mapping[str, NDArray[np.float64]],
    answers: Answers,
    loss: Callable[[NDArray[np.float64], Answers], float] = log_loss,
) -> dict[str, float]:
    """Weights of the models whose mean has the lowest loss; they sum to 1.

    One model after the other is added, also one that is in already, as long as the loss falls.

    Args:
        chances: Answers to the held out samples, (n, C), by model.
        answers: Classes (n,), labels (n, C) or values (n,).
        loss: Function of a model's answers and the right ones.
    """
    counts = dict.fromkeys(chances, 0)
    total = np.zeros_like(next(iter(chances.values())))
    lowest = np.inf
    for size in range(1, ROUNDS + 1):
        losses = {name: loss((total + own) / size, answers) for name, own in chances.items()}
        best = min(losses, key=lambda name: (losses[name], name))
        if losses[best] >= lowest:
            break
        lowest = losses[best]
        counts[best] += 1
        total = total + chances[best]
    whole = sum(counts.values())
    return {name: count / whole for name, count in counts.items() if count}

"""Weights of an ensemble by greedy selection on held out samples (Caruana et al., ICML 2004).

Legend: n held out samples, C classes or labels.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from evodevo.estimators.automatic.scores import Answers, log_loss

ROUNDS = 25


def greedy(chances: Mapping[str, NDArray[np.float64]], answers: Answers) -> dict[str, float]:
    """Weights of the models whose mean has the lowest log-loss; they sum to 1.

    One model after the other is added, also one that is in already, as long as the log-loss falls.

    Args:
        chances: Probabilities of the held out samples, (n, C), by model.
        answers: Classes (n,) or labels (n, C).
    """
    counts = dict.fromkeys(chances, 0)
    total = np.zeros_like(next(iter(chances.values())))
    lowest = np.inf
    for size in range(1, ROUNDS + 1):
        losses = {name: log_loss((total + own) / size, answers) for name, own in chances.items()}
        best = min(losses, key=lambda name: (losses[name], name))
        if losses[best] >= lowest:
            break
        lowest = losses[best]
        counts[best] += 1
        total = total + chances[best]
    whole = sum(counts.values())
    return {name: count / whole for name, count in counts.items() if count}

"""A policy over sub-pools of modules, learned by REINFORCE (Williams 1992).

Sub-pools are drawn one member after the other, without putting back (Plackett-Luce). The state is plain data.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]


class SubPoolPolicy:
    """One logit per module.

    Args:
        ids: ids of the modules.
        size: number of modules of a sub-pool.
        rate: step along an advantage of one standard deviation.
        memory: decay of the moving averages of rewards, 0 to 1.
        state: result of ``to_json`` before an interruption.
    """

    def __init__(
        self, ids: Sequence[str], size: int, rate: float, memory: float, state: Mapping[str, Any] | None = None
    ) -> None:
        self.ids = tuple(ids)
        self.size = size
        self.rate = rate
        self.memory = memory
        kept = state or {}
        self.logits: Numbers = np.asarray(kept.get("logits", [0.0] * len(self.ids)), dtype=np.float64)
        self.decisions = int(kept.get("decisions", 0))
        self.mean: float | None = kept.get("mean")
        self.variance = float(kept.get("variance", 0.0))

    def draw(self, rng: np.random.Generator) -> tuple[int, ...]:
        """Places of a sub-pool's modules, in the order in which they were drawn."""
        noise = rng.gumbel(size=len(self.ids))  # the largest of logits + Gumbel noise are such a draw
        return tuple(np.argsort(-(self.logits + noise), kind="stable")[: self.size].tolist())

    def names(self, drawn: Sequence[int]) -> tuple[str, ...]:
        """Ids, in the order of the pool."""
        return tuple(self.ids[place] for place in sorted(drawn))

    def probabilities(self) -> dict[str, float]:
        """Id -> how probable it is that a module is drawn first."""
        return dict(zip(self.ids, _softmax(self.logits).tolist(), strict=True))

    def learn(self, drawn: Sequence[int], reward: float) -> None:
        """Go towards what was drawn if its reward is above the moving average, away from it if it is below."""
        self.decisions += 1
        if not math.isfinite(reward):
            return
        if self.mean is None:
            self.mean = reward  # there is nothing to compare the first one with
        elif self.variance > 0:
            advantage = (reward - self.mean) / math.sqrt(self.variance)
            self.logits = self.logits + self.rate * float(np.clip(advantage, -3, 3)) * self.gradient(drawn)
        self.variance = self.memory * self.variance + (1 - self.memory) * (reward - self.mean) ** 2
        self.mean = self.memory * self.mean + (1 - self.memory) * reward

    def gradient(self, drawn: Sequence[int]) -> Numbers:
        """Gradient of the log-probability of a draw with respect to the logits."""
        total = np.zeros_like(self.logits)
        left = np.ones(len(self.ids), dtype=bool)
        for place in drawn:
            total[left] -= _softmax(self.logits[left])
            total[place] += 1.0
            left[place] = False
        return total

    def to_json(self) -> dict[str, Any]:
        """Exactly what is needed to go on."""
        return {
            "logits": self.logits.tolist(),
            "decisions": self.decisions,
            "mean": self.mean,
            "variance": self.variance,
        }


def _softmax(logits: Numbers) -> Numbers:
    powers: Numbers = np.exp(logits - logits.max())
    shares: Numbers = powers / powers.sum()
    return shares

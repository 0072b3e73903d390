"""Induction (Olsson et al. 2022, "In-context learning and induction heads"): what followed a mark before?

Random tokens, a mark (token 0) at a random place, and the same mark at the end: the token after the first mark is asked
for at the last position.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from evodevo.settings import Settings
from evodevo.tasks.recall.base import Ids, RecallSettings, RecallTask, empty


class InductionTask(RecallTask):
    """Induction."""

    name: ClassVar[str] = "induction"
    settings_class: ClassVar[type[Settings]] = RecallSettings
    settings: RecallSettings

    def draw_samples(self, rng: np.random.Generator, count: int) -> tuple[Ids, Ids]:
        settings, rows = self.settings, np.arange(count)
        _, targets = empty(count, settings.length)
        tokens = rng.integers(1, settings.vocabulary, (count, settings.length))
        places = rng.integers(0, settings.length - 2, count)
        tokens[rows, places] = 0
        tokens[:, -1] = 0
        targets[:, -1] = tokens[rows, places + 1]
        return tokens, targets

    def guesses(self) -> dict[str, float]:
        return {
            "any token": 1 / (self.settings.vocabulary - 1),
            "a token of the sequence": 1 / (self.settings.length - 2),
        }

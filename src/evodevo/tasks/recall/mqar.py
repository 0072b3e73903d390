"""Multi-query associative recall (Arora et al., "Zoology", 2023): pairs of key and value first, then the keys again.

The sequence begins with ``pairs`` keys and their values, all keys different. After ``gap`` blanks each key comes once
more at a random place, in random order, followed by its value; blanks fill the rest. The value is asked for at the key.
Keys are the lower half of the ids but 0, which is the blank; values are the upper half.
"""

from __future__ import annotations

from typing import ClassVar, Self

import numpy as np
from pydantic import Field, model_validator

from evodevo.settings import Settings
from evodevo.tasks.recall.base import Ids, RecallSettings, RecallTask, empty, without_order


class MQARSettings(RecallSettings):
    """Sizes of multi-query associative recall."""

    pairs: int = Field(default=4, ge=1, le=1 << 12, description="number of pairs in a sequence")
    gap: int = Field(default=0, ge=0, le=1 << 14, description="number of blanks between the pairs and the questions")

    @model_validator(mode="after")
    def _they_fit(self) -> Self:
        if 4 * self.pairs + self.gap > self.length:
            raise ValueError(
                f"{self.pairs} pairs, asked for once each, and a gap of {self.gap} need a length of "
                f"{4 * self.pairs + self.gap}; it is {self.length}"
            )
        if self.pairs > self.vocabulary // 2 - 1:
            raise ValueError(f"{self.pairs} different keys need a vocabulary of {2 * self.pairs + 2}, or larger")
        return self


class MQARTask(RecallTask):
    """Multi-query associative recall."""

    name: ClassVar[str] = "mqar"
    settings_class: ClassVar[type[Settings]] = MQARSettings
    settings: MQARSettings

    def draw_samples(self, rng: np.random.Generator, count: int) -> tuple[Ids, Ids]:
        settings = self.settings
        pairs, half = settings.pairs, settings.vocabulary // 2
        keys = 1 + without_order(rng, count, half - 1, pairs)
        values = rng.integers(half, settings.vocabulary, (count, pairs))
        tokens, targets = empty(count, settings.length)
        tokens[:, 0 : 2 * pairs : 2], tokens[:, 1 : 2 * pairs : 2] = keys, values
        begin = 2 * pairs + settings.gap
        # Pairs were drawn in random order, so that their order at these places is random too.
        places = begin + 2 * without_order(rng, count, (settings.length - begin) // 2, pairs)
        np.put_along_axis(tokens, places, keys, axis=1)
        np.put_along_axis(tokens, places + 1, values, axis=1)
        np.put_along_axis(targets, places, values, axis=1)
        return tokens, targets

    def guesses(self) -> dict[str, float]:
        half = self.settings.vocabulary - self.settings.vocabulary // 2
        return {"any value": 1 / half, "a value of the sequence": 1 / self.settings.pairs}

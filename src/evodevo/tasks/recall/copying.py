"""Selective copying (MAD, Poli et al. 2024; Gu & Dao 2023): the tokens among blanks, once more and in order.

``tokens`` random tokens stand at random places among blanks (token 0); then comes a mark (token 1), behind which they
are written once more without the blanks. Each is asked for at the token before it. MAD writes marks in place of the
copy; here what was copied may be read, as a language model reads what it writes.
"""

from __future__ import annotations

from typing import ClassVar, Self

import numpy as np
from pydantic import Field, model_validator

from evodevo.settings import Settings
from evodevo.tasks.recall.base import Ids, RecallSettings, RecallTask, empty, without_order


class SelectiveCopyingSettings(RecallSettings):
    """Sizes of selective copying."""

    tokens: int = Field(default=8, ge=1, le=1 << 13, description="number of tokens to be copied")

    @model_validator(mode="after")
    def _they_fit(self) -> Self:
        if 2 * self.tokens > self.length:
            raise ValueError(
                f"{self.tokens} tokens and their copy need a length of {2 * self.tokens}; it is {self.length}"
            )
        return self


class SelectiveCopyingTask(RecallTask):
    """Selective copying."""

    name: ClassVar[str] = "selective_copying"
    settings_class: ClassVar[type[Settings]] = SelectiveCopyingSettings
    settings: SelectiveCopyingSettings

    def draw_samples(self, rng: np.random.Generator, count: int) -> tuple[Ids, Ids]:
        settings = self.settings
        number, room = settings.tokens, settings.length - settings.tokens
        tokens, targets = empty(count, settings.length)
        copied = rng.integers(2, settings.vocabulary, (count, number))
        np.put_along_axis(tokens, np.sort(without_order(rng, count, room, number), axis=1), copied, axis=1)
        tokens[:, room], tokens[:, room + 1 :], targets[:, room:] = 1, copied[:, :-1], copied
        return tokens, targets

    def guesses(self) -> dict[str, float]:
        return {"any token": 1 / (self.settings.vocabulary - 2), "a token of the sequence": 1 / self.settings.tokens}

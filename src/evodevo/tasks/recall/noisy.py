"""Recall with noise (MAD, Poli et al. 2024, "noisy in-context recall"): pairs come again among tokens of noise.

A sequence has its own value for each of ``pairs`` keys. Two tokens at a time it is a key with its value, or, for the
share ``noise`` of places, two tokens of noise. A value is asked for at each key that came before. A quarter of the ids
are noise; the others are keys and values, half each.
"""

from __future__ import annotations

from typing import ClassVar, Self

import numpy as np
from pydantic import Field, model_validator

from evodevo.settings import Settings
from evodevo.tasks.base import NO_TARGET
from evodevo.tasks.recall.base import Ids, RecallSettings, RecallTask, empty, without_order


class NoisyRecallSettings(RecallSettings):
    """Sizes of recall with noise."""

    pairs: int = Field(default=4, ge=1, le=1 << 12, description="number of keys in a sequence")
    noise: float = Field(default=0.3, ge=0, le=0.9, description="share of places with noise, 0 to 0.9")

    @model_validator(mode="after")
    def _they_fit(self) -> Self:
        if self.pairs > self.keys:
            raise ValueError(f"{self.pairs} different keys are more than {self.keys}; raise the vocabulary")
        return self

    @property
    def keys(self) -> int:
        """Number of keys among the ids, and of values."""
        return 3 * self.vocabulary // 8


class NoisyRecallTask(RecallTask):
    """Recall with noise."""

    name: ClassVar[str] = "noisy_recall"
    settings_class: ClassVar[type[Settings]] = NoisyRecallSettings
    settings: NoisyRecallSettings

    def draw_samples(self, rng: np.random.Generator, count: int) -> tuple[Ids, Ids]:
        settings = self.settings
        units, pairs = settings.length // 2, settings.pairs
        keys = without_order(rng, count, settings.keys, pairs)
        values = settings.keys + rng.integers(0, settings.keys, (count, pairs))
        which = rng.integers(0, pairs, (count, units))
        noisy = rng.random((count, units)) < settings.noise
        before = np.cumsum((which[:, :, None] == np.arange(pairs)) & ~noisy[:, :, None], axis=1)
        seen = np.take_along_axis(before, which[:, :, None], axis=2)[:, :, 0] > 1
        key, value = np.take_along_axis(keys, which, axis=1), np.take_along_axis(values, which, axis=1)
        other = rng.integers(2 * settings.keys, settings.vocabulary, (count, units, 2))
        tokens, targets = empty(count, settings.length)
        end = 2 * units
        tokens[:, 0:end:2] = np.where(noisy, other[:, :, 0], key)
        tokens[:, 1:end:2] = np.where(noisy, other[:, :, 1], value)
        if settings.length > end:
            tokens[:, -1] = 2 * settings.keys
        targets[:, 0:end:2] = np.where(seen & ~noisy, value, NO_TARGET)
        return tokens, targets

    def guesses(self) -> dict[str, float]:
        return {"any value": 1 / self.settings.keys, "a value of the sequence": 1 / self.settings.pairs}

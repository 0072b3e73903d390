"""The base of the recall tasks: sequences of tokens, some of whose successors follow from earlier tokens.

A target is at the position whose next token is predicted; all other positions have none and count in no loss.

Shapes: B samples, L tokens.
"""

from __future__ import annotations

from abc import abstractmethod
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from evodevo import canonical
from evodevo.randomness import generator
from evodevo.settings import Settings
from evodevo.tasks.base import NO_TARGET, SPLITS, OutputSpec, SampleTask, Split, check_key
from evodevo.tasks.generated import RULE, SplitSizes, belongs, mix
from evodevo.tasks.inputs import Batch, InputSpec

Ids = NDArray[np.int64]
_VERSION = 1
_TOKENS_AT_ONCE = 1 << 20
_MOST_DRAWS = 4096


class RecallSettings(Settings):
    """Sizes that all recall tasks have."""

    length: int = Field(default=64, ge=8, le=1 << 14, description="number of tokens in a sequence")
    vocabulary: int = Field(default=64, ge=8, le=1 << 15, description="number of token ids")
    samples: SplitSizes = SplitSizes(train=20_000, validation=500, test=500)
    seed: int = Field(default=0, ge=0, lt=2**63, description="seed of the generator")


class RecallTask(SampleTask):
    """Sequences that are drawn when the task is opened; no sequence is in two splits, since its content decides.

    Args:
        settings: Settings of the task.
    """

    settings_class: ClassVar[type[Settings]] = RecallSettings
    settings: Any

    def __init__(self, settings: Any) -> None:
        self.settings = settings
        self.key = canonical.digest({"task": self.name, "version": _VERSION, "settings": settings.model_dump()})
        self.digest = self.key
        self.inputs = (InputSpec("text", "tokens", length=settings.length, vocabulary=settings.vocabulary),)
        self.outputs = (OutputSpec("next", "tokens", settings.vocabulary, of="text"),)
        self.group_names = {}
        self._samples = {split: self._split(split) for split in SPLITS}

    @classmethod
    def open(cls, settings: Any, cache_folder: Path | None = None, key: str | None = None) -> Self:
        task = cls(settings)
        check_key(task.key, key, f"the generator of the task {cls.name}")
        return task

    @abstractmethod
    def draw_samples(self, rng: np.random.Generator, count: int) -> tuple[Ids, Ids]:
        """Sequences (count, L) and targets (count, L), -1 where nothing is asked."""

    @abstractmethod
    def guesses(self) -> dict[str, float]:
        """Accuracy of guessing without memory, by the kind of guess."""

    def count(self, split: Split) -> int:
        return self.settings.samples.of(split)  # type: ignore[no-any-return]

    def fetch(self, split: Split, indices: NDArray[np.int64]) -> Batch:
        tokens, targets = self._samples[split]
        return {"text": tokens[indices].astype(np.int64), "next/target": targets[indices].astype(np.int64)}

    def groups(self, split: Split, indices: NDArray[np.int64]) -> dict[str, NDArray[np.int64]]:
        return {}

    def show(self, split: Split, index: int) -> dict[str, str]:
        batch = self.fetch(split, np.asarray([index]))
        asked = [f"{place}: {token}" for place, token in enumerate(batch["next/target"][0]) if token != NO_TARGET]
        return {"text": " ".join(map(str, batch["text"][0])), "next": ", ".join(asked)}

    def baselines(self, split: Split) -> dict[str, float]:
        return self.guesses()

    def describe(self) -> dict[str, Any]:
        return {
            "task": self.name,
            "digest": self.digest,
            "key": self.key,
            "source": "generated",
            "samples": {split: self.count(split) for split in SPLITS},
            "split_rule": f"{RULE} (of the sequence)",
            "length": self.settings.length,
            "vocabulary": self.settings.vocabulary,
            "targets_per_sample": float((self._samples["train"][1] != NO_TARGET).sum(1).mean()),
        }

    def _split(self, split: Split) -> tuple[NDArray[Any], NDArray[Any]]:
        rng = generator(self.settings.seed, split, self.name)
        wanted, kind, most = self.count(split), np.int16, max(1, _TOKENS_AT_ONCE // self.settings.length)
        tokens: list[NDArray[Any]] = []
        targets: list[NDArray[Any]] = []
        found = 0
        for _ in range(_MOST_DRAWS):
            drawn, asked = self.draw_samples(rng, min(most, 8 * wanted + 64))
            inside = belongs(_fingerprint(drawn), split)
            tokens.append(drawn[inside].astype(kind))
            targets.append(asked[inside].astype(kind))
            found += int(inside.sum())
            if found >= wanted:
                break
        return np.concatenate(tokens)[:wanted], np.concatenate(targets)[:wanted]


def without_order(rng: np.random.Generator, count: int, of: int, take: int) -> Ids:
    """``take`` different numbers below ``of`` for each of ``count`` rows, in random order: (count, take)."""
    return np.argsort(rng.random((count, of)), axis=1)[:, :take]


def empty(count: int, length: int) -> tuple[Ids, Ids]:
    """Sequences of token 0, and no targets."""
    return np.zeros((count, length), np.int64), np.full((count, length), NO_TARGET, np.int64)


def _fingerprint(tokens: Ids) -> NDArray[np.uint64]:
    """A fingerprint of each sequence (B, L): (B,)."""
    places = np.arange(tokens.shape[1], dtype=np.uint64) << np.uint64(16)
    total: NDArray[np.uint64] = mix(tokens.astype(np.uint64) + places).sum(axis=1, dtype=np.uint64)
    return total

"""Generated texts about topics, the default data of the task ``text_labels``.

Source: docs/spec/h_model.md#experiments.

All topics use the same invented words, with topic-specific frequencies. Each text mixes words of its topic with common
words and with some of another topic, so that a model of word counts is good but not perfect.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from evodevo.randomness import generator
from evodevo.settings import Settings
from evodevo.tasks.base import SPLITS, Split
from evodevo.tasks.generated import SplitSizes

_SYLLABLES = [consonant + vowel for consonant in "bdfgklmnprstvz" for vowel in "aeiou"]
_WORDS = 800
_SHORTEST, _LONGEST = 16, 48  # range of the number of words in a text


class TopicSettings(Settings):
    """Number and clarity of the topics, and number of texts."""

    classes: int = Field(default=20, ge=2, le=256, description="number of topics, which are equally frequent")
    clarity: float = Field(default=1.5, gt=0, le=8, description="standard deviation of a topic's log frequencies")
    own: float = Field(default=0.5, gt=0, le=1, description="share of a text's words from its topic")
    other: float = Field(default=0.15, ge=0, lt=1, description="share of the remaining words from one other topic")
    samples: SplitSizes = SplitSizes(train=6_000, validation=1_000, test=2_000)
    seed: int = Field(default=0, ge=0, lt=2**63, description="seed of the generator")


def generate(settings: TopicSettings) -> list[tuple[Split, str, str]]:
    """(split, topic, text) of all samples; topics alternate, so that they are equally frequent in each split."""
    rng = generator(settings.seed, "topics")
    words = _invent(rng)
    common = 1.0 / np.arange(3, _WORDS + 3)  # Zipf's law
    common /= common.sum()
    topics = common * np.exp(settings.clarity * rng.standard_normal((settings.classes, _WORDS)))
    topics /= topics.sum(axis=1, keepdims=True)
    samples: list[tuple[Split, str, str]] = []
    for split in SPLITS:
        draws = generator(settings.seed, split, "topics")
        count = settings.samples.of(split)
        own = np.arange(count) % settings.classes
        other = (own + draws.integers(1, settings.classes, count)) % settings.classes
        chosen = _choose(draws, settings, topics, common, own, other)
        lengths = draws.integers(_SHORTEST, _LONGEST + 1, count)
        for topic, row, length in zip(own.tolist(), chosen, lengths, strict=True):
            samples.append((split, f"topic {topic:03d}", " ".join(words[index] for index in row[:length])))
    return samples


def _choose(
    rng: np.random.Generator,
    settings: TopicSettings,
    topics: NDArray[np.float64],
    common: NDArray[np.float64],
    own: NDArray[np.int64],
    other: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Indices of the words of texts of the largest length, drawn by inverse transform sampling. (count, longest)."""
    shape = (len(own), _LONGEST)
    source = rng.random(shape)
    rest = 1 - settings.own
    from_other = source < settings.own + settings.other * rest
    frequencies = np.concatenate([topics, common[None]])
    row = np.where(source < settings.own, own[:, None], np.where(from_other, other[:, None], len(topics)))
    # One sorted list for all rows, so that one search serves all: row r is in [r, r + 1).
    cumulative = np.cumsum(frequencies, axis=1) / frequencies.sum(axis=1, keepdims=True)
    ladder = (np.arange(len(frequencies))[:, None] + np.minimum(cumulative, 1.0)).reshape(-1)
    indices = np.searchsorted(ladder, row + rng.random(shape), side="right") - row * _WORDS
    chosen: NDArray[np.int64] = np.clip(indices, 0, _WORDS - 1)
    return chosen


def _invent(rng: np.random.Generator) -> list[str]:
    """Distinct words of two or three syllables."""
    words: dict[str, None] = {}
    while len(words) < _WORDS:
        words["".join(rng.choice(_SYLLABLES, size=rng.integers(2, 4)).tolist())] = None
    return list(words)

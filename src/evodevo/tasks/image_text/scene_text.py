"""Generated texts about scenes: captions in several wordings, questions, and plots whose words hint at genres."""

from __future__ import annotations

import numpy as np

from evodevo.tasks.image_text.scenes import GENRES, VALUES

# Each value in two wordings, so that captions of one scene differ.
_SAYINGS: dict[str, dict[str, tuple[str, str]]] = {
    "colour": {
        "red": ("red", "crimson"),
        "green": ("green", "emerald"),
        "blue": ("blue", "azure"),
        "yellow": ("yellow", "golden"),
        "purple": ("purple", "violet"),
        "orange": ("orange", "amber"),
    },
    "shape": {
        "circle": ("circle", "disc"),
        "square": ("square", "box"),
        "triangle": ("triangle", "wedge"),
        "cross": ("cross", "plus"),
    },
    "count": {"one": ("one", "single"), "two": ("two", "twin"), "three": ("three", "triple")},
    "size": {"small": ("small", "little"), "large": ("large", "big")},
}
_CAPTIONS = (
    "{count} {size} {colour} {shape}",
    "a picture of {count} {colour} {shape} , {size}",
    "{colour} {shape} , {size} , {count} in number",
    "seen here : {count} {size} {shape} in {colour}",
)
_QUESTIONS = {
    "colour": ("which colour is it", "what colour do you see", "name the colour"),
    "shape": ("which shape is it", "what shape do you see", "name the shape"),
    "count": ("how many are there", "how many do you see", "count them"),
    "size": ("how large is it", "what size do you see", "name the size"),
}
_PLOTS = {
    "comedy": ("laughs", "clumsy", "prank", "joke", "wedding", "mishap"),
    "crime": ("detective", "heist", "murder", "police", "suspect", "gang"),
    "fantasy": ("dragon", "wizard", "sword", "spell", "kingdom", "elf"),
    "romance": ("love", "kiss", "heart", "paris", "letters", "dance"),
    "war": ("soldier", "battle", "army", "trench", "bomb", "general"),
    "western": ("cowboy", "saloon", "sheriff", "desert", "horse", "gold"),
}
_FILLERS = (
    "a",
    "the",
    "young",
    "old",
    "meets",
    "finds",
    "one",
    "night",
    "town",
    "story",
    "of",
    "and",
    "returns",
    "friend",
)
_HINTS_PER_GENRE = 2
_FILLERS_PER_PLOT = 6

_TEXTS = (*_CAPTIONS, *(question for group in _QUESTIONS.values() for question in group))
_FIXED = {word for text in _TEXTS for word in text.split() if not word.startswith("{")}
_SAID = {word for values in _SAYINGS.values() for pair in values.values() for word in pair}
_TOLD = {word for words in _PLOTS.values() for word in words}
WORDS: tuple[str, ...] = tuple(sorted(_FIXED | _SAID | _TOLD | set(_FILLERS) | {"."}))
"""All words that can occur."""
MEANINGS: dict[str, tuple[str, str]] = {
    word: (attribute, value)
    for attribute, values in _SAYINGS.items()
    for value, pair in values.items()
    for word in pair
}
"""Word of a caption -> the attribute and the value that it states; a rule can decide a match with it."""


def caption(rng: np.random.Generator, attributes: list[int]) -> list[str]:
    """The caption of a scene: each attribute is stated once, in a wording drawn at random."""
    wording = {
        attribute: _SAYINGS[attribute][values[number]][rng.integers(2)]
        for (attribute, values), number in zip(VALUES.items(), attributes, strict=True)
    }
    return _CAPTIONS[rng.integers(len(_CAPTIONS))].format(**wording).split()


def question(rng: np.random.Generator, attribute: str) -> list[str]:
    """A question about one attribute."""
    return str(rng.choice(_QUESTIONS[attribute])).split()


def plot(rng: np.random.Generator, genres: list[int]) -> list[str]:
    """A few words in random order, some of them of these genres."""
    hints = [
        str(word) for genre in genres for word in rng.choice(_PLOTS[GENRES[genre]], _HINTS_PER_GENRE, replace=False)
    ]
    words = hints + [str(word) for word in rng.choice(_FILLERS, _FILLERS_PER_PLOT)]
    return [words[index] for index in rng.permutation(len(words))]


CAPTION_LENGTH = max(len(wording.split()) for wording in _CAPTIONS)
QUESTION_LENGTH = max(len(text.split()) for group in _QUESTIONS.values() for text in group)


def plot_length(genres: int) -> int:
    """Number of words in a plot that hints at that many genres."""
    return _FILLERS_PER_PLOT + genres * _HINTS_PER_GENRE

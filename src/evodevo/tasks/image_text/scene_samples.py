"""Generated samples of pictures and texts, the default data of the task of images and text without a network.

Match: the answer is drawn first, the picture (or first caption) uniformly and independently of it; the other side then
describes the same scene, or a scene that differs in one attribute, uniformly. Either side alone has therefore the same
distribution for yes and for no, and both together determine the answer.

Genres: one to three per sample. Marks in the picture and words of the plot hint at each of them independently, so that
either side alone predicts much and both predict more (like poster and plot in MM-IMDb, which the paper uses).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from evodevo.errors import DataError
from evodevo.randomness import generator
from evodevo.settings import Settings
from evodevo.tasks.base import SPLITS, Split
from evodevo.tasks.generated import SplitSizes
from evodevo.tasks.image_text import scene_text
from evodevo.tasks.image_text.samples import MATCH, Form, ImageTextSamples, Prepared, QuestionKind
from evodevo.tasks.image_text.scenes import GENRES, SMALLEST_SIDE, VALUES, draw
from evodevo.tasks.images.pixels import Pixels
from evodevo.tasks.sample_splits import fingerprint
from evodevo.tasks.text.words import Vocabulary

ANSWERS = tuple(value for values in VALUES.values() for value in values)
"""Classes of the form "labels": any value of any attribute."""
SPLIT_RULE = "generated: what equals a sample of another split is drawn again"

_SHARE_OF_GENRES = (0.4, 0.4, 0.2)  # shares of samples with one, two, three genres
_STRAY = 0.02  # probability of a hint at a genre that the sample does not have
_MOST_HINTED = 4
_MOST_ATTEMPTS = 100


class SceneSettings(Settings):
    """Number, size and difficulty of the generated samples."""

    samples: SplitSizes = SplitSizes(train=8_000, validation=1_000, test=2_000)
    side: int = Field(default=SMALLEST_SIDE, ge=SMALLEST_SIDE, le=256, description="height and width of a picture")
    image_hints: float = Field(default=0.7, ge=0, le=1, description="share of genres that have a mark in the picture")
    text_hints: float = Field(default=0.75, ge=0, le=1, description="share of genres that have words in the plot")
    seed: int = Field(default=0, ge=0, lt=2**63, description="seed of the generator")


@dataclass(frozen=True)
class _Draft:
    pixels: Pixels | None
    texts: Mapping[str, list[list[str]]]
    targets: Mapping[str, NDArray[np.int64]]
    groups: Mapping[str, NDArray[np.int64]]

    def contents(self) -> list[bytes]:
        """A hash of each sample's inputs."""
        images = (
            [b""] * len(next(iter(self.texts.values()))) if self.pixels is None else [p.tobytes() for p in self.pixels]
        )
        spoken = zip(*([" ".join(text).encode() for text in texts] for texts in self.texts.values()), strict=True)
        return [fingerprint(image, *text) for image, text in zip(images, spoken, strict=True)]


def prepare(form: Form, settings: SceneSettings) -> Prepared:
    """All samples of a form.

    Raises:
        DataError: There are too few distinct samples.
    """
    vocabulary = Vocabulary(scene_text.WORDS)
    seen: set[bytes] = set()
    pixels: list[Pixels] = []
    splits: dict[Split, ImageTextSamples] = {}
    for split in reversed(SPLITS):  # so that held-out samples do not depend on the number of training samples
        drafts = _distinct(form, settings, split, seen)
        first = sum(map(len, pixels))
        pixels += [draft.pixels for draft in drafts if draft.pixels is not None]
        count = settings.samples.of(split)
        splits[split] = ImageTextSamples(
            images=None if form == "caption_match" else first + np.arange(count),
            tokens={
                name: vocabulary.encode([text for draft in drafts for text in draft.texts[name]], _length(form))
                for name in drafts[0].texts
            },
            targets={name: np.concatenate([draft.targets[name] for draft in drafts]) for name in drafts[0].targets},
            groups={name: np.concatenate([draft.groups[name] for draft in drafts]) for name in drafts[0].groups},
        )
    facts = {name: _FACTS[name] for name in splits["train"].groups}
    return Prepared(
        pixels=np.concatenate(pixels) if pixels else None,
        words=vocabulary.words,
        questions=tuple(QUESTIONS[name] for name in splits["train"].targets),
        groups=facts,
        splits={split: splits[split] for split in SPLITS},
        info={"source": "generated scenes and captions", "split_rule": SPLIT_RULE, "skipped": 0, "truncated": 0},
    )


QUESTIONS = {
    "answer": QuestionKind("answer", "class", ANSWERS),
    "genres": QuestionKind("genres", "labels", GENRES),
    "match": QuestionKind("match", "class", MATCH),
}
_FACTS: dict[str, tuple[str, ...]] = {"match": MATCH, "question": tuple(VALUES), **VALUES}


def _length(form: Form) -> int:
    plot = scene_text.plot_length(_MOST_HINTED)
    return {
        "labels": scene_text.QUESTION_LENGTH,
        "multilabel": plot,
        "match": scene_text.CAPTION_LENGTH,
        "caption_match": scene_text.CAPTION_LENGTH,
        "both": scene_text.CAPTION_LENGTH + 1 + plot,
    }[form]


def _distinct(form: Form, settings: SceneSettings, split: Split, seen: set[bytes]) -> list[_Draft]:
    """Drafts of the requested size in all; samples that occurred before are drawn again."""
    drafts: list[_Draft] = []
    missing = settings.samples.of(split)
    for attempt in range(_MOST_ATTEMPTS):
        rng = generator(settings.seed, split, attempt, f"scenes/{form}")
        draft = _draft(form, settings, rng, missing)
        fresh: list[int] = []
        for row, content in enumerate(draft.contents()):
            if content not in seen:
                seen.add(content)
                fresh.append(row)
        drafts.append(_taken(draft, fresh))
        missing -= len(fresh)
        if not missing:
            return drafts
    raise DataError(f"there are too few distinct samples of the form {form!r}; ask for fewer than {settings.samples}.")


def _taken(draft: _Draft, rows: list[int]) -> _Draft:
    return _Draft(
        pixels=None if draft.pixels is None else draft.pixels[rows],
        texts={name: [texts[row] for row in rows] for name, texts in draft.texts.items()},
        targets={name: target[rows] for name, target in draft.targets.items()},
        groups={name: group[rows] for name, group in draft.groups.items()},
    )


def _draft(form: Form, settings: SceneSettings, rng: np.random.Generator, count: int) -> _Draft:
    scenes = np.stack([rng.integers(0, len(values), count) for values in VALUES.values()], axis=1)
    groups: dict[str, NDArray[np.int64]] = {name: scenes[:, at] for at, name in enumerate(VALUES)}
    targets: dict[str, NDArray[np.int64]] = {}
    captions: list[list[str]] = []
    plots: list[list[str]] = []
    marks = None
    if form in ("multilabel", "both"):
        targets["genres"] = _genres(rng, count)
        marks = _hinted(rng, targets["genres"], settings.image_hints)
        hinted = _hinted(rng, targets["genres"], settings.text_hints)
        plots = [scene_text.plot(rng, np.flatnonzero(row)[:_MOST_HINTED].tolist()) for row in hinted]
    if form in ("match", "both", "caption_match"):
        targets["match"] = groups["match"] = rng.integers(0, 2, count)
        captions = [scene_text.caption(rng, row) for row in _described(rng, scenes, targets["match"]).tolist()]
    texts: dict[str, list[list[str]]]
    if form == "caption_match":
        return _Draft(
            None,
            {"first": [scene_text.caption(rng, row) for row in scenes.tolist()], "second": captions},
            targets,
            groups,
        )
    if form == "labels":
        groups["question"] = rng.integers(0, len(VALUES), count)
        # Answers are numbered through all attributes; those of one begin where those of the attribute before it end.
        starts = np.cumsum([0, *(len(values) for values in VALUES.values())])[:-1]
        asked = groups["question"]
        targets["answer"] = starts[asked] + scenes[np.arange(len(scenes)), asked]
        names = tuple(VALUES)
        texts = {"text": [scene_text.question(rng, names[kind]) for kind in groups["question"]]}
    elif form == "both":
        texts = {"text": [[*spoken, ".", *plot] for spoken, plot in zip(captions, plots, strict=True)]}
    else:
        texts = {"text": captions or plots}
    return _Draft(draw(rng, scenes, settings.side, marks), texts, targets, groups)


def _described(rng: np.random.Generator, scenes: NDArray[np.int64], match: NDArray[np.int64]) -> NDArray[np.int64]:
    """The scene that the caption describes: the same, or with one attribute changed to another value. (N, A)."""
    sizes = np.asarray([len(values) for values in VALUES.values()])
    rows = np.arange(len(scenes))
    changed = rng.integers(0, len(sizes), len(scenes))
    step = 1 + (rng.random(len(scenes)) * (sizes[changed] - 1)).astype(np.int64)
    described = scenes.copy()
    described[rows, changed] = (described[rows, changed] + np.where(match == 1, 0, step)) % sizes[changed]
    return described


def _genres(rng: np.random.Generator, count: int) -> NDArray[np.int64]:
    """Genres of each sample, (N, G) of 0 and 1, one to three per row."""
    # Ranks of random numbers: the k smallest of a row are k different genres, uniformly drawn.
    how_many = 1 + rng.choice(len(_SHARE_OF_GENRES), count, p=_SHARE_OF_GENRES)
    order = rng.random((count, len(GENRES))).argsort(axis=1).argsort(axis=1)
    chosen: NDArray[np.int64] = (order < how_many[:, None]).astype(np.int64)
    return chosen


def _hinted(rng: np.random.Generator, genres: NDArray[np.int64], share: float) -> NDArray[np.bool_]:
    """Genres at which one side hints, (N, G): most of the sample's own, a few others."""
    hinted: NDArray[np.bool_] = rng.random(genres.shape) < np.where(genres == 1, share, _STRAY)
    return hinted

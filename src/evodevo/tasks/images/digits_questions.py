"""The task ``digits_questions``: questions about scikit-learn's images of digits, available without a network.

For each image, and for each question, yes and no are equally frequent; a linear model of both inputs fails too, since
only image and question together determine the answer. With yes and no alone (``answer``), a network learns almost
nothing in a few minutes, because no target ever identifies a digit; the default therefore also asks, for a quarter of
the samples, which digit it is. Each image is in one split only.

Shapes: N samples of a split, B samples of a batch, M images, L words.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import ceil
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from evodevo import canonical
from evodevo.randomness import generator
from evodevo.settings import Settings
from evodevo.tasks import sample_baselines
from evodevo.tasks.base import ALL_SPLITS, MATCHED, Batch, InputSpec, OutputSpec, SampleTask, Split, check_key
from evodevo.tasks.images import digit_questions, drawn_images
from evodevo.tasks.images.digit_questions import ANSWERS, DIGITS, QUESTIONS, SUMS
from evodevo.tasks.table.group_splits import Shares, divide
from evodevo.tasks.text.words import PADDING, Vocabulary, cut

Form = Literal["mixed", "answer", "sums", "match"]
_VERSION = 2
_UNSEEN = 4
"""One test sample in this many has a wording that no other split has."""
WITH_DIGITS = ("mixed", "sums")
_LETTERS = tuple(f"{byte:02x}" for byte in range(256))
PHRASING = ("seen", "unseen")


class DigitsQuestionsSettings(Settings):
    """Kind and number of the questions, and the splits."""

    form: Form = Field(
        default="mixed",
        description="'mixed' yes or no, and for a quarter which digit it is; 'answer' yes or no alone; 'sums' for a"
        " half the last digit of a sum; 'match' whether a statement is true",
    )
    tokenizer: Literal["words", "bytes"] = Field(default="words", description="'words', or 'bytes' as they are written")
    questions: int = Field(default=8, ge=4, le=32, multiple_of=4, description="number of questions about each image")
    shares: Shares = Field(default=Shares(), description="share of the images in each split")
    seed: int = Field(default=0, ge=0, lt=2**63, description="seed of the choice of questions")


@dataclass(frozen=True)
class _Asked:
    """The samples of a split.

    Attributes:
        image: Index of the image, (N,).
        question: Index of the question, (N,); sums come after ``QUESTIONS``.
        unseen: 1 where the wording is in the test split alone, else 0, (N,).
        target: Index of the answer, (N,).
        text: Text of the question, N of them.
    """

    image: NDArray[np.int64]
    question: NDArray[np.int64]
    unseen: NDArray[np.int64]
    target: NDArray[np.int64]
    text: tuple[str, ...]


class DigitsQuestionsTask(SampleTask):
    """One question about one image of a digit per sample.

    Groups: question, digit, phrasing (unseen ones are in the test split alone; each of their words is in training).

    Args:
        settings: Settings of the task.
    """

    name: ClassVar[str] = "digits_questions"
    settings_class: ClassVar[type[Settings]] = DigitsQuestionsSettings
    splits: tuple[Split, ...] = ALL_SPLITS

    def __init__(self, settings: DigitsQuestionsSettings) -> None:
        self.settings = settings
        self.key = _key(settings)
        self.digest = canonical.digest({"task": self.name, "key": self.key})
        self.splits = tuple(split for split in ALL_SPLITS if getattr(settings.shares, split) > 0)
        self._pixels, names = drawn_images.read("digits")
        self._digits = np.asarray([int(name) for name in names])
        images_of = divide([image.tobytes() for image in self._pixels], names, settings.shares, self.splits)
        self._asked = {split: self._ask(split, images_of[split]) for split in self.splits}
        self._cut = cut if settings.tokenizer == "words" else _letters
        taught = (self._cut(text) for text in self._asked["train"].text)
        self.vocabulary = Vocabulary(_LETTERS) if settings.tokenizer == "bytes" else Vocabulary.of(taught, 4096)
        longest = max(len(self._cut(text)) for asked in self._asked.values() for text in asked.text)
        height, width, channels = self._pixels.shape[1:]
        self.inputs = (
            InputSpec("image", "image", height=height, width=width, channels=channels),
            InputSpec("text", "tokens", length=longest, vocabulary=len(self.vocabulary)),
        )
        names_of_answers = ANSWERS + (DIGITS if settings.form in WITH_DIGITS else ())
        name = "match" if settings.form == "match" else "answer"
        self.outputs = (OutputSpec(name, "class", len(names_of_answers), names_of_answers),)
        self.group_names: Mapping[str, tuple[str, ...]] = {
            "question": tuple(question.name for question in QUESTIONS)
            + {"sums": SUMS, "mixed": SUMS[:1]}.get(settings.form, ()),
            "digit": DIGITS,
            "phrasing": PHRASING,
        }

    @classmethod
    def open(
        cls, settings: DigitsQuestionsSettings, cache_folder: Path | None = None, key: str | None = None
    ) -> DigitsQuestionsTask:
        check_key(_key(settings), key, "what is asked about scikit-learn's digits")
        return cls(settings)

    def count(self, split: Split) -> int:
        return len(self._asked[split].text)

    def fetch(self, split: Split, indices: NDArray[np.int64]) -> Batch:
        asked, tokens = self._asked[split], self._tokens[split][indices]
        # A question is no caption: a loss that aligns matching images and texts must not apply to it.
        matched = {} if self.settings.form == "match" else {MATCHED: np.zeros(len(indices), np.bool_)}
        return {
            **matched,
            "image": self._pixels[asked.image[indices]],
            "text": tokens,
            "text/mask": tokens != PADDING,
            f"{self.outputs[0].name}/target": asked.target[indices],
        }

    def groups(self, split: Split, indices: NDArray[np.int64]) -> dict[str, NDArray[np.int64]]:
        asked = self._asked[split]
        return {
            "question": asked.question[indices],
            "digit": self._digits[asked.image[indices]],
            "phrasing": asked.unseen[indices],
        }

    def show(self, split: Split, index: int) -> dict[str, str]:
        asked, output = self._asked[split], self.outputs[0]
        height, width = self._pixels.shape[1:3]
        return {
            "image": f"{height} x {width}, grey",
            "text": asked.text[index],
            output.name: output.names[asked.target[index]],
        }

    def encode(self, name: str, text: str) -> NDArray[np.int64]:
        ids: NDArray[np.int64] = self.vocabulary.encode([self._cut(text)], self.inputs[1].length)[0]
        return ids[: np.count_nonzero(ids != PADDING)]

    def baselines(self, split: Split) -> dict[str, float]:
        """Accuracy of a constant answer, and of logistic regression on pixels, on words, and on both."""
        key = f"{self.outputs[0].name}/target"
        train, held = (self.fetch(part, np.arange(self.count(part))) for part in ("train", split))
        metrics = {"majority": sample_baselines.constant(train[key], held[key])}
        for names in (("image",), ("text",), ("image", "text")):
            learned, judged = (
                np.concatenate([self._features(batch, name) for name in names], axis=1) for batch in (train, held)
            )
            label = f"logistic regression on {' and '.join(names)}"
            metrics[label] = sample_baselines.logistic(learned, train[key], judged, held[key])
        return metrics

    def describe(self) -> dict[str, Any]:
        return {
            "task": self.name,
            "digest": self.digest,
            "key": self.key,
            "source": "scikit-learn's digits",
            "form": self.settings.form,
            "images": {split: len(np.unique(asked.image)) for split, asked in self._asked.items()},
            "samples": {split: self.count(split) for split in self.splits},
            "unseen_phrasings": {split: int(asked.unseen.sum()) for split, asked in self._asked.items()},
            "vocabulary": len(self.vocabulary),
            "outputs": {output.name: list(output.names) for output in self.outputs},
            "split_rule": "by image, each digit evenly",
        }

    @cached_property
    def _tokens(self) -> dict[Split, NDArray[np.int64]]:
        length = self.inputs[1].length
        return {
            split: self.vocabulary.encode([self._cut(text) for text in asked.text], length)
            for split, asked in self._asked.items()
        }

    @property
    def _numbers(self) -> int:
        """Number of questions about each image whose answer is a digit; the others are half yes, half no."""
        questions = self.settings.questions
        return {"sums": questions // 2, "mixed": 2 * ceil(questions / 8)}.get(self.settings.form, 0)

    def _ask(self, split: Split, images: NDArray[np.int64]) -> _Asked:
        """The samples of a split, in random order: every image with its questions."""
        rng = generator(self.settings.seed, f"digits_questions/{split}")
        count = self.settings.questions - self._numbers
        frequency = digit_questions.frequencies(np.bincount(self._digits[images], minlength=10))
        rows: list[tuple[int, int, int]] = []
        for digit in range(10):
            own = images[self._digits[images] == digit]
            for answer in range(len(ANSWERS)):
                rows += [
                    (image, question, answer)
                    for image, question in _spread(own, frequency[:, digit, answer], count // 2, rng)
                ]
        if self._numbers:
            for image in images.tolist():
                sums = rng.permutation(len(SUMS)) if self.settings.form == "sums" else np.zeros(self._numbers, np.int64)
                for added in sums[: self._numbers].tolist():
                    last = (self._digits[image] + added) % 10
                    rows.append((image, len(QUESTIONS) + added, len(ANSWERS) + int(last)))
        order = rng.permutation(len(rows))
        image, question, target = (np.asarray(column, np.int64)[order] for column in zip(*rows, strict=True))
        unseen = np.zeros(len(order), np.int64)
        if split == "test":
            unseen[rng.permutation(len(order))[: len(order) // _UNSEEN]] = 1
        texts = tuple(self._word(*pair, rng) for pair in zip(question.tolist(), unseen.tolist(), strict=True))
        return _Asked(image, question, unseen, target, texts)

    def _word(self, question: int, unseen: int, rng: np.random.Generator) -> str:
        if question < len(QUESTIONS):
            mood: digit_questions.Mood = "statement" if self.settings.form == "match" else "question"
            ways = digit_questions.wordings(QUESTIONS[question], mood)
        else:
            ways = digit_questions.wordings_of_sum(question - len(QUESTIONS))
        chosen = ways.unseen if unseen else ways.seen
        return chosen[int(rng.integers(len(chosen)))]

    def _features(self, batch: Batch, name: str) -> NDArray[np.float32]:
        if name == "image":
            return batch["image"].reshape(len(batch["image"]), -1).astype(np.float32) / np.float32(255)
        return sample_baselines.word_counts(batch[name], batch[f"{name}/mask"], len(self.vocabulary))


def _spread(
    images: NDArray[np.int64], frequency: NDArray[np.float64], each: int, rng: np.random.Generator
) -> list[tuple[int, int]]:
    """Pairs of image and question: ``each`` per image, each question within 1 of its expected number.

    The ordered questions are divided into ``each`` parts, and an image gets one from every part. An image therefore
    gets no question twice, except for one that spans two parts.
    """
    if not len(images):
        return []
    slots = len(images) * each
    ends = frequency.cumsum() / frequency.sum()
    due = np.searchsorted(ends, (np.arange(slots) + rng.random()) / slots, side="right")
    chosen = due.clip(max=len(frequency) - 1)
    pairs: list[tuple[int, int]] = []
    for part in range(each):
        own = chosen[part * len(images) : (part + 1) * len(images)]
        pairs += zip(rng.permutation(images).tolist(), own.tolist(), strict=True)
    return pairs


def _letters(text: str) -> list[str]:
    """The bytes of the text, each as an entry of ``_LETTERS``."""
    return [_LETTERS[byte] for byte in text.encode()]


def _key(settings: DigitsQuestionsSettings) -> str:
    source = drawn_images.identity("digits")
    options = settings.model_dump(mode="json", exclude={"tokenizer"} if settings.tokenizer == "words" else None)
    return canonical.digest({"version": _VERSION, "source": source, **options})

"""What a task is: real data in three splits, handed out as numpy arrays, and the numbers that judge a model on them.

A task holds no torch and no model, so that the coordinator, the workers and the command line read the same one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from evodevo.errors import DataError, UsageError
from evodevo.randomness import generator
from evodevo.registry import Registry, table
from evodevo.settings import Settings
from evodevo.tasks import own_samples
from evodevo.tasks.inputs import Batch, InputSpec

TASKS: Registry[Any] = table("task", "evodevo.tasks")
TASKS.add("language", "evodevo.tasks.text.language:LanguageTask")
TASKS.add("proofs", "evodevo.tasks.reasoning.proofs:ProofsTask")
TASKS.add("pointer", "evodevo.tasks.reasoning.pointer:PointerTask")
TASKS.add("text_labels", "evodevo.tasks.text.text_labels:TextLabelsTask")
TASKS.add("languages", "evodevo.tasks.text.languages:LanguagesTask")
TASKS.add("images", "evodevo.tasks.images.images:ImagesTask")
TASKS.add("image_text", "evodevo.tasks.image_text.task:ImageTextTask")
TASKS.add("table", "evodevo.tasks.table.task:TableTask")
TASKS.add("multitask", "evodevo.tasks.multitask.task:MultitaskTask")
TASKS.add("digits_questions", "evodevo.tasks.images.digits_questions:DigitsQuestionsTask")

Split = Literal["train", "architecture", "validation", "test"]
"""``architecture`` is what a strategist may look at, ``validation`` selects a model; few tasks have all four."""
SPLITS: tuple[Split, ...] = ("train", "validation", "test")
ALL_SPLITS: tuple[Split, ...] = get_args(Split)


class Task(ABC):
    """One problem. Reading methods may be called from any process and never change the task.

    Laws: a batch is a function of (split, seed, step, size) alone, so that a resumed run reads what the uninterrupted
    one would have read; no document stands in two splits; equal ``digest`` means equal data.
    """

    name: ClassVar[str]
    settings_class: ClassVar[type[Settings]]

    digest: str
    """64 hexadecimal digits over everything that decides which numbers a model sees."""
    key: str
    """64 hexadecimal digits by which a worker finds the prepared data; see ``open``."""

    @classmethod
    @abstractmethod
    def open(cls, settings: Any, cache_folder: Path | None = None, key: str | None = None) -> Task:
        """Read the data, or find it prepared in the cache.

        Args:
            settings: an instance of ``settings_class``.
            cache_folder: where prepared data lies; None is ``$XDG_CACHE_HOME/evodevo`` or ``~/.cache/evodevo``.
            key: the ``key`` of a task that was opened before with these settings; a worker passes it to find the
                prepared data without reading the sources again.

        Raises:
            DataError: nothing there, nothing readable, or too little; the message says where and what to do.
        """

    @abstractmethod
    def batch(self, split: Split, seed: int, step: int, size: int) -> NDArray[np.int64]:
        """The samples of one training step; the first axis has length ``size``."""

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """What a report says about the data: sources, sizes, digests, the split's rule. JSON."""


Answer = Literal["class", "labels", "tokens"]
NO_TARGET = -1
MATCHED = "matched"


@dataclass(frozen=True)
class OutputSpec:
    """One answer that a task wants.

    Attributes:
        name: ``NAME/target`` is its key in a batch.
        kind: one class, several labels, or the next token at each position of the input ``of``.
        size: classes, labels, or vocabulary.
        names: of the classes or labels; empty for tokens.
        of: the input whose tokens are predicted (kind tokens only).
    """

    name: str
    kind: Answer
    size: int
    names: tuple[str, ...] = ()
    of: str = ""


class SampleTask(Task):
    """A task of separate samples with named inputs and answers; what networks of any kind are trained on.

    Laws: those of ``Task``; ``fetch`` gives the same samples at every call; no sample of one split stands in another.

    Attributes:
        inputs: what a sample holds.
        outputs: what is asked of it.
        group_names: facts about samples that are no target, for analysis: name -> the values in order
            ("language" -> ("ar", "de", ...), "depth" -> ("0", "1", ...)).
        splits: the splits that there are.
    """

    splits: tuple[Split, ...] = SPLITS
    inputs: tuple[InputSpec, ...]
    outputs: tuple[OutputSpec, ...]
    group_names: Mapping[str, tuple[str, ...]]

    @abstractmethod
    def count(self, split: Split) -> int:
        """Samples of a split."""

    @abstractmethod
    def fetch(self, split: Split, places: NDArray[np.int64]) -> Batch:
        """The samples at these places, targets included."""

    @abstractmethod
    def groups(self, split: Split, places: NDArray[np.int64]) -> dict[str, NDArray[np.int64]]:
        """Per name in ``group_names`` the index of each sample's value; -1 where it has none."""

    @abstractmethod
    def show(self, split: Split, place: int) -> dict[str, str]:
        """A sample in words, for people: input or output name -> text (an image is told by its size)."""

    def encode(self, name: str, text: str) -> NDArray[np.int64]:
        """A text of one's own as token ids of the input ``name``, at most as many as it holds. Shape (tokens,).

        Raises:
            UsageError: the task has no words for it.
        """
        raise UsageError(f"the task {self.name!r} reads no text of one's own as {name!r}; name samples of its splits.")

    def read_sample(self, columns: Mapping[str, str]) -> Batch:
        """One sample of one's own, without targets: input -> a text, the path of an image, numbers with commas.

        Raises:
            UsageError, DataError: see ``own_samples.read``.
        """
        return own_samples.read(self.inputs, columns, self.encode)

    def read_rows(self, path: Path, size: int = 64) -> Iterator[Batch]:
        """All rows of a file of one's own, without targets, ``size`` at a time and in order.

        Raises:
            UsageError: the task reads no such files.
        """
        raise UsageError(f"the task {self.name!r} reads no tables of one's own; give one sample with --input.")

    def decode(self, name: str, tokens: NDArray[np.int64]) -> str:
        """Token ids (tokens,) of the input ``name`` as text.

        Raises:
            UsageError: the task has no words for them.
        """
        raise UsageError(f"the task {self.name!r} has no words for what is written after {name!r}.")

    def batch(self, split: Split, seed: int, step: int, size: int) -> Batch:  # type: ignore[override]
        """Random samples of one step, drawn with replacement: a function of (split, seed, step, size) alone."""
        return self.fetch(split, self.draw(split, seed, step, size))

    def draw(self, split: Split, seed: int, step: int, size: int) -> NDArray[np.int64]:
        """The places of what ``batch`` gives."""
        return generator(seed, step, f"samples/{split}").integers(0, self.count(split), size=size)

    def baselines(self, split: Split) -> dict[str, float]:
        """Metric of simple, honest opponents on a split, by name ("majority", "tf-idf"); what a model must beat."""
        return {}


def check_key(found: str, wanted: str | None, source: str) -> None:
    """A worker's data must be the coordinator's.

    Raises:
        DataError: they differ.
    """
    if wanted is not None and found != wanted:
        raise DataError(
            f"{source} is not what it was: its key is {found[:12]}, and {wanted[:12]} is wanted. "
            "Restore the data, or begin a new run."
        )

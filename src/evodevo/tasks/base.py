"""The table of tasks and their interface: data in splits, returned as numpy arrays, with baselines to compare with.

A task needs no torch and no model, so that the coordinator, the workers and the command line can all open it.
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

TASKS: Registry[type[SampleTask]] = table("task", "evodevo.tasks")
TASKS.add("language", "evodevo.tasks.text.language:LanguageTask")
TASKS.add("proofs", "evodevo.tasks.reasoning.proofs:ProofsTask")
TASKS.add("pointer", "evodevo.tasks.reasoning.pointer:PointerTask")
TASKS.add("domains", "evodevo.tasks.reasoning.domains:DomainsTask")
TASKS.add("programs", "evodevo.tasks.reasoning.programs:ProgramsTask")
TASKS.add("mqar", "evodevo.tasks.recall.mqar:MQARTask")
TASKS.add("induction", "evodevo.tasks.recall.induction:InductionTask")
TASKS.add("selective_copying", "evodevo.tasks.recall.copying:SelectiveCopyingTask")
TASKS.add("noisy_recall", "evodevo.tasks.recall.noisy:NoisyRecallTask")
TASKS.add("text_labels", "evodevo.tasks.text.text_labels:TextLabelsTask")
TASKS.add("languages", "evodevo.tasks.text.languages:LanguagesTask")
TASKS.add("images", "evodevo.tasks.images.images:ImagesTask")
TASKS.add("image_text", "evodevo.tasks.image_text.task:ImageTextTask")
TASKS.add("table", "evodevo.tasks.table.task:TableTask")
TASKS.add("rows", "evodevo.tasks.rows.task:RowsTask")
TASKS.add("multitask", "evodevo.tasks.multitask.task:MultitaskTask")
TASKS.add("digits_questions", "evodevo.tasks.images.digits_questions:DigitsQuestionsTask")

Split = Literal["train", "architecture", "validation", "test"]
"""Name of a split. ``architecture`` is for a growth strategist's decisions, ``validation`` selects a model; few tasks
have all four."""
SPLITS: tuple[Split, ...] = ("train", "validation", "test")
ALL_SPLITS: tuple[Split, ...] = get_args(Split)


Answer = Literal["class", "labels", "tokens"]
NO_TARGET = -1
MATCHED = "matched"


@dataclass(frozen=True)
class OutputSpec:
    """One output of a task, which a network has to predict.

    Attributes:
        name: Name of the output; its targets have the key ``NAME/target`` in a batch.
        kind: Kind of the answer: one class, several labels, or the next token at each position of the input ``of``.
        size: Number of classes, of labels, or of token ids.
        names: Names of the classes or labels; empty for tokens.
        of: Name of the input whose tokens are predicted (kind tokens only).
    """

    name: str
    kind: Answer
    size: int
    names: tuple[str, ...] = ()
    of: str = ""


class SampleTask(ABC):
    """A task of separate samples with named inputs and outputs, on which networks of any kind are trained.

    Reading methods may be called from any process and never change the task.

    Laws: a batch is a function of (split, seed, step, size) alone, so that a resumed run reads the same batches as an
    uninterrupted one; ``fetch`` returns the same samples at every call; no document and no sample is in two splits;
    equal ``digest`` means equal data.

    Attributes:
        digest: 64 hexadecimal digits over everything that determines the numbers in a batch.
        key: 64 hexadecimal digits that name the prepared data in the cache; see ``open``.
        inputs: Inputs of a sample.
        outputs: Outputs to predict.
        group_names: Facts about samples that are no targets, for analysis: name -> the values in order
            ("language" -> ("ar", "de", ...), "depth" -> ("0", "1", ...)).
        splits: Splits of the task.
        overlapping: Whether training samples are windows that begin anywhere in one text; their number says nothing
            about passes over the data.
    """

    name: ClassVar[str]
    overlapping: ClassVar[bool] = False
    settings_class: ClassVar[type[Settings]]

    digest: str
    key: str
    splits: tuple[Split, ...] = SPLITS
    inputs: tuple[InputSpec, ...]
    outputs: tuple[OutputSpec, ...]
    group_names: Mapping[str, tuple[str, ...]]

    @classmethod
    @abstractmethod
    def open(cls, settings: Any, cache_folder: Path | None = None, key: str | None = None) -> SampleTask:
        """Read and prepare the data, or load them prepared from the cache.

        Args:
            settings: Instance of ``settings_class``.
            cache_folder: Folder of prepared data; None is ``$XDG_CACHE_HOME/evodevo`` or ``~/.cache/evodevo``.
            key: ``key`` of a task that was opened before with these settings. A worker passes it to find the prepared
                data without reading the sources again.

        Raises:
            DataError: The data are missing, unreadable, or too few; the message has the place and a remedy.
        """

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """JSON-able description of the data for reports: sources, sizes, digests, the rule of the split."""

    @abstractmethod
    def count(self, split: Split) -> int:
        """Number of samples in a split."""

    @abstractmethod
    def fetch(self, split: Split, indices: NDArray[np.int64]) -> Batch:
        """The samples at these indices (B,) of a split, targets included."""

    @abstractmethod
    def groups(self, split: Split, indices: NDArray[np.int64]) -> dict[str, NDArray[np.int64]]:
        """For each name in ``group_names`` the index of each sample's value, (B,); -1 where it has none."""

    @abstractmethod
    def show(self, split: Split, index: int) -> dict[str, str]:
        """A sample as text for display: input or output name -> text (an image is described by its size)."""

    def encode(self, name: str, text: str) -> NDArray[np.int64]:
        """A user's text as token ids of the input ``name``, cut to its length. Shape (tokens,).

        Raises:
            UsageError: The task has no tokenizer for it.
        """
        raise UsageError(f"the task {self.name!r} reads no text of one's own as {name!r}; name samples of its splits.")

    def read_sample(self, columns: Mapping[str, str]) -> Batch:
        """A user's sample, without targets, from input -> text, path of an image, or numbers with commas.

        Raises:
            UsageError, DataError: see ``own_samples.read``.
        """
        return own_samples.read(self.inputs, columns, self.encode)

    def read_rows(self, path: Path, size: int = 64) -> Iterator[Batch]:
        """All rows of a user's file, without targets, in order and in batches of ``size``.

        Raises:
            UsageError: The task does not read such files.
        """
        raise UsageError(f"the task {self.name!r} reads no tables of one's own; give one sample with --input.")

    def decode(self, name: str, tokens: NDArray[np.int64]) -> str:
        """Token ids (tokens,) of the input ``name`` as text.

        Raises:
            UsageError: The task has no tokenizer for them.
        """
        raise UsageError(f"the task {self.name!r} has no words for what is written after {name!r}.")

    def batch(self, split: Split, seed: int, step: int, size: int) -> Batch:
        """Random samples of one step, drawn with replacement: a function of (split, seed, step, size) alone."""
        return self.fetch(split, self.draw(split, seed, step, size))

    def draw(self, split: Split, seed: int, step: int, size: int) -> NDArray[np.int64]:
        """The indices of the samples in ``batch``, shape (size,)."""
        return generator(seed, step, f"samples/{split}").integers(0, self.count(split), size=size)

    def baselines(self, split: Split) -> dict[str, float]:
        """Metric of simple baselines on a split, by name ("majority", "tf-idf"), which a model has to beat."""
        return {}


def check_key(actual: str, wanted: str | None, source: str) -> None:
    """Check that a worker's data equal the coordinator's.

    Args:
        actual: Key of the data here.
        wanted: Key of the coordinator's data; None = any.
        source: Origin of the data, for the message.

    Raises:
        DataError: The keys differ.
    """
    if wanted is not None and actual != wanted:
        raise DataError(
            f"{source} is not what it was: its key is {actual[:12]}, and {wanted[:12]} is wanted. "
            "Restore the data, or begin a new run."
        )

"""The task of an agent of a multitask system: another task's samples, one question about them, and stored splits.

Source: docs/spec/munet.md#tasks. The samples come from any ``SampleTask`` of the table (``images``, ``text_labels``,
``table``, a package's own), which also defines the modality. The splits are drawn anew, evenly over classes, and the
answer is one class.

Shapes: B samples.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from evodevo import canonical
from evodevo.errors import DataError, UsageError, quoted_list
from evodevo.settings import Settings, validate
from evodevo.tasks.base import SPLITS, TASKS, OutputSpec, SampleTask, Split, check_key
from evodevo.tasks.images.pixels import SUFFIXES
from evodevo.tasks.inputs import Batch
from evodevo.tasks.multitask.answers import Answers, Question, answers
from evodevo.tasks.multitask.few import FewSamples
from evodevo.tasks.multitask.preparation import NO_INPUT, prepare
from evodevo.tasks.text.token_cache import CachedTokens, TokenCache, default_folder

_VERSION = 1


class MultitaskSettings(Settings):
    """Source of the samples, choice of classes, and the question."""

    source: str = Field(default="images", description="name of a task with separate samples")
    data: str | None = Field(
        default=None, description="the user's files; none is the source's default (digits, generated topics)"
    )
    options: dict[str, Any] = Field(default_factory=dict, description="further settings of the source")
    question: Question = Field(default="class", description="'class', 'parity' or 'upper_half' of the class's index")
    rotate: int = Field(default=0, ge=0, le=1 << 20, description="number added to the index of each answer")
    only: tuple[str, ...] = Field(default=(), description="classes to keep; all when empty")
    seed: int = Field(default=0, ge=0, description="seed of the splits")
    few: FewSamples | None = Field(
        default=None,
        exclude_if=lambda value: value is None,  # keys of tasks from before stay the same
        description="numbers of samples that are kept of each class in training and validation; all when left out",
    )
    batch: int | None = Field(
        default=None, ge=1, le=1 << 16, description="samples in a step; none is that of the agent's table"
    )


class MultitaskTask(SampleTask):
    """A view of another task with stratified splits. Inputs are the source's; there is one output, a class.

    Args:
        settings: Settings of the task.
        key: 64 hexadecimal digits over source, question and splits; equal in every process.
        source: Task of the samples.
        entry: Indices of the samples of each split.
    """

    name: ClassVar[str] = "multitask"
    settings_class: ClassVar[type[Settings]] = MultitaskSettings

    def __init__(self, settings: MultitaskSettings, key: str, source: SampleTask, entry: CachedTokens) -> None:
        self.settings = settings
        self.key = self.digest = key
        self.source = source
        self._info = entry.info
        self._arrays = entry.arrays
        self._answers = _answers(source, settings)
        self.inputs = source.inputs
        names = self._answers.names
        self.outputs = (OutputSpec(source.outputs[0].name, "class", len(names), names),)
        self.group_names = source.group_names

    @classmethod
    def open(
        cls, settings: MultitaskSettings, cache_folder: Path | None = None, key: str | None = None
    ) -> MultitaskTask:
        cache = TokenCache(cache_folder or default_folder())
        entry = cache.get(key) if key is not None else None
        if entry is not None and key is not None:
            return cls(settings, key, _source(settings, cache_folder, entry.info["source_key"]), entry)
        source = _source(settings, cache_folder, None)
        decisive = settings.model_dump(exclude={"data", "options", "batch"}, mode="json")
        actual_key = canonical.digest(
            {"task": cls.name, "version": _VERSION, "source": source.digest, "settings": decisive}
        )
        check_key(actual_key, key, settings.data or settings.source)
        entry = cache.get(actual_key) or cache.put(
            actual_key,
            prepare(source, _answers(source, settings), settings.seed, settings.data or settings.source, settings.few),
        )
        return cls(settings, actual_key, source, entry)

    @property
    def classes(self) -> int:
        """Number of answers."""
        return self.outputs[0].size

    @property
    def row_columns(self) -> tuple[dict[str, Any], ...]:
        """Columns of the table of which samples are rows; see ``RowsTask``. Empty for other samples."""
        return tuple(getattr(self.source, "row_columns", ()))

    def count(self, split: Split) -> int:
        return len(self._array("label", split))

    def labels(self, split: Split) -> NDArray[np.int64]:
        """Answers of all samples of a split, in order."""
        return self._array("label", split).astype(np.int64)

    def fetch(self, split: Split, indices: NDArray[np.int64]) -> Batch:
        batch: dict[str, NDArray[Any]] = {}
        for name, rows, at in self._found(split, indices):
            for key, part in self.source.fetch(name, rows).items():
                if not key.endswith(NO_INPUT):
                    whole = batch.setdefault(key, np.zeros((len(indices), *part.shape[1:]), part.dtype))
                    whole[at] = part
        return {**batch, f"{self.outputs[0].name}/target": self._array("label", split)[indices].astype(np.int64)}

    def groups(self, split: Split, indices: NDArray[np.int64]) -> dict[str, NDArray[np.int64]]:
        values_of = {name: np.full(len(indices), -1, np.int64) for name in self.group_names}
        for name, rows, at in self._found(split, indices):
            for fact, values in self.source.groups(name, rows).items():
                values_of[fact][at] = values
        return values_of

    def show(self, split: Split, index: int) -> dict[str, str]:
        ((name, rows, _),) = self._found(split, np.asarray([index]))
        shown = self.source.show(name, int(rows[0]))
        return {**shown, self.outputs[0].name: self._answers.names[int(self._array("label", split)[index])]}

    def encode(self, name: str, text: str) -> NDArray[np.int64]:
        return self.source.encode(name, text)

    def read_sample(self, columns: Mapping[str, str]) -> Batch:
        return self.source.read_sample(columns)

    def read_rows(self, path: Path, size: int = 64) -> Iterator[Batch]:
        return self.source.read_rows(path, size)

    def describe(self) -> dict[str, Any]:
        names = self._answers.names
        return {
            "task": self.name,
            "digest": self.digest,
            "key": self.key,
            "samples": {split: self.count(split) for split in SPLITS},
            "outputs": {self.outputs[0].name: list(names)},
            "class_counts": {
                split: dict(zip(names, np.bincount(self.labels(split), minlength=len(names)).tolist(), strict=True))
                for split in SPLITS
            },
            "source": self.source.describe(),
            "split_rule": self._info["split_rule"],
            "contradictory": self._info["contradictory"],
        }

    def _array(self, kind: str, split: Split) -> NDArray[Any]:
        if split not in SPLITS:
            raise UsageError(f"a task of a system has no split {split!r}; it has {quoted_list(SPLITS)}.")
        return self._arrays[f"{kind}_{split}"]

    def _found(
        self, split: Split, indices: NDArray[np.int64]
    ) -> Iterator[tuple[Split, NDArray[np.int64], NDArray[np.int64]]]:
        """Source's split, indices there, and the positions of these among the given indices."""
        origin = self._array("origin", split)[indices]
        rows = self._array("place", split)[indices].astype(np.int64)
        for number in np.unique(origin).tolist():
            at = np.flatnonzero(origin == number)
            yield self.source.splits[number], rows[at], at


def _source(settings: MultitaskSettings, cache_folder: Path | None, key: str | None) -> SampleTask:
    kind = TASKS.get(settings.source)
    values = {**settings.options, **({} if settings.data is None else {"data": settings.data})}
    own: Any = validate(kind.settings_class, values, what=f"settings of the task {settings.source!r}")
    if key is None and settings.source == "images" and settings.data is not None:
        _refuse_strays(own.sources())
    source = kind.open(own, cache_folder, key)
    if not (len(source.outputs) == 1 and source.outputs[0].kind == "class"):
        raise UsageError(
            f"a task of a system asks for one class per sample; {settings.source!r} with these settings does not."
        )
    return source


def _refuse_strays(domains: Any) -> None:
    """Refuse images beside the folders of classes, which have no label.

    Raises:
        DataError: There is such an image.
    """
    for part in (part for domain in domains for part in domain.parts() if part.kind == "folder"):
        strays = sorted(file for file in part.path.iterdir() if file.is_file() and file.suffix.lower() in SUFFIXES)
        if strays:
            raise DataError(
                f"{len(strays)} images ({strays[0]}, ...) lie in no folder of a class. Put each into its class's"
                " folder, or remove it."
            )


def _answers(source: SampleTask, settings: MultitaskSettings) -> Answers:
    return answers(source.outputs[0].names, settings.question, settings.rotate, settings.only)

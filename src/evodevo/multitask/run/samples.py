"""Samples of one's own, as a path of a system reads them: image files of any size, arrays, texts.

Images become what the task's own samples are first, in size and colour, and then what the path reads: the way of every
sample that it was trained and measured on.

Shapes: B samples.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from evodevo import files
from evodevo.errors import DataError, NotFoundError, UsageError, quoted_list
from evodevo.multitask.run.row_samples import OwnRows
from evodevo.multitask.settings import AgentSettings
from evodevo.settings import Settings, validate
from evodevo.tasks import own_samples
from evodevo.tasks.base import SampleTask, Split
from evodevo.tasks.images.pixels import SUFFIXES, uniform
from evodevo.tasks.inputs import Batch, InputSpec
from evodevo.tasks.multitask.task import MultitaskSettings, MultitaskTask
from evodevo.tasks.table.rows import comma_separated, text_of
from evodevo.tasks.text.tokenizers import ByteTokenizer

Sample = str | Path | NDArray[np.uint8] | Mapping[str, str]
"""An image file, an image (height, width) or (height, width, 1 or 3) of bytes, a text where the task reads texts, or
all inputs of a sample by name; of a table some of its columns."""
COLUMNS = {"image": ("image", "image_path", "path", "file"), "tokens": ("text",)}
"""Modality -> columns of a table that hold it, where none is called as the input is."""
_BYTES = ByteTokenizer()
_MOST_BYTES = 8
"""Bytes of a token, for paths of which only the length is known."""


class OwnSamples(SampleTask):
    """A handful of samples without answers, handed out as a task hands out its own.

    Args:
        inputs: inputs of a sample.
        batch: all samples.
    """

    name: ClassVar[str] = "own_samples"
    settings_class: ClassVar[type[Settings]] = Settings
    digest = key = "0" * 64  # nothing that is made of them is ever kept

    def __init__(self, inputs: Sequence[InputSpec], batch: Batch) -> None:
        self.inputs, self.outputs, self.group_names = tuple(inputs), (), {}
        self._batch = dict(batch)

    @classmethod
    def open(cls, settings: Any, cache_folder: Path | None = None, key: str | None = None) -> OwnSamples:
        raise UsageError("samples of one's own are given, not opened.")

    def count(self, split: Split) -> int:
        return len(next(iter(self._batch.values()), ()))

    def fetch(self, split: Split, places: NDArray[np.int64]) -> Batch:
        return {name: values[places] for name, values in self._batch.items()}

    def groups(self, split: Split, places: NDArray[np.int64]) -> dict[str, NDArray[np.int64]]:
        return {}

    def show(self, split: Split, place: int) -> dict[str, str]:
        return {spec.name: spec.modality for spec in self.inputs}

    def describe(self) -> dict[str, Any]:
        return {"task": self.name, "samples": self.count("test")}


class SampleReader:
    """The conversion of a user's samples to batches.

    Args:
        settings: settings of the agent that answers.
        own: input that the path itself reads, for tasks without recorded inputs; None where it is unknown.
        cache_folder: folder of prepared data, with the tokenizers of tasks of texts; None is the user's.
    """

    def __init__(self, settings: AgentSettings, own: InputSpec | None, cache_folder: Path | None = None) -> None:
        self._settings, self._cache_folder = settings, cache_folder
        self._task: MultitaskTask | None = None
        self.table = OwnRows(settings.columns) if settings.columns else None
        self.inputs = self._recorded() or self._opened() or _alone(own)

    @property
    def only(self) -> InputSpec | None:
        """The input, where a sample has one."""
        return self.inputs[0] if len(self.inputs) == 1 else None

    def read(self, samples: Sequence[Sample]) -> Batch:
        """Samples as one batch (B, …).

        Raises:
            UsageError: something that is no sample of this task.
            DataError: a file that cannot be read.
        """
        if self.table is not None:
            return self.table.read(samples)
        batches = [self._one(sample) for sample in samples]
        return {name: np.concatenate([sample[name] for sample in batches]) for name in batches[0]} if batches else {}

    def rows(self, place: Path) -> Iterator[tuple[str, Sample]]:
        """(name, sample) of all images of a folder, inner folders included, or of all rows of a .csv file; where a
        sample is a row of a table, of a table in any form.

        Raises:
            NotFoundError: there is nothing.
            UsageError: another kind of file, or no column for an input.
            DataError: a table that cannot be read.
        """
        if self.table is not None and place.exists():
            yield from self.table.rows(place)
        elif place.is_dir():
            if self.only is None or self.only.modality != "image":
                raise UsageError(f"a folder holds images; this task reads {self._words()}. Give a .csv file.")
            files.refuse_links_outside(place)
            found = sorted(file for file in place.rglob("*") if file.suffix.lower() in SUFFIXES and file.is_file())
            if not found:
                raise DataError(f"{place} holds no images; known are {quoted_list(sorted(SUFFIXES))}.")
            yield from ((str(file.relative_to(place)), file) for file in found)
        elif not place.exists():
            raise NotFoundError(f"there is no {place}. Give a folder of images, or a .csv file.")
        elif place.suffix.lower() == ".csv":
            yield from self._table(place)
        else:
            raise UsageError(f"{place} is neither a folder nor a .csv file; a single image goes with --input.")

    def _one(self, sample: Sample) -> Batch:
        if isinstance(sample, Mapping):
            return self._by_name(sample)
        if self.only is None:
            raise UsageError(f"a sample of this task has several inputs; give {self._words('NAME=VALUE')}.")
        if isinstance(sample, np.ndarray):
            return {self.only.name: _pixels(sample, self.only)[None]}
        return self._by_name({self.only.name: str(sample)})

    def _by_name(self, values: Mapping[str, str]) -> Batch:
        if any(spec.modality == "vector" for spec in self.inputs):
            # Its numbers are scaled as those of the task, whose statistics lie with its data.
            return self._whole_task().read_sample(values)
        batch = own_samples.read(self.inputs, values, self._encode)
        lacking = [spec.name for spec in self.inputs if not values.get(spec.name, "").strip()]
        if lacking:
            raise UsageError(f"the sample lacks {quoted_list(lacking)}; a path of a system reads {self._words()}.")
        return {name: value for name, value in batch.items() if not name.endswith("/present")}

    def _encode(self, name: str, text: str) -> NDArray[np.int64]:
        """Ids of a text; bytes need no data of the task, as words do."""
        (spec,) = (source for source in self.inputs if source.name == name)
        if spec.vocabulary == len(_BYTES.token_bytes()):
            return _BYTES.encode(text)[: spec.length]
        return self._whole_task().encode(name, text)

    def _table(self, place: Path) -> Iterator[tuple[str, Sample]]:
        header, *rows = comma_separated(text_of(place)[1], place)
        columns = {spec: header.index(_column(spec, header, place)) for spec in self.inputs}
        for number, row in enumerate(rows, start=1):
            values = {spec.name: row[column] for spec, column in columns.items()}
            for spec in columns:
                if spec.modality == "image" and values[spec.name]:
                    # As the table's own words name them: beside it, or anywhere.
                    values[spec.name] = str(place.parent / Path(values[spec.name]).expanduser())
            yield str(number), values

    def _words(self, form: str = "") -> str:
        return quoted_list(
            form.replace("NAME", spec.name) if form else f"{spec.name} ({spec.modality})" for spec in self.inputs
        )

    # What a sample of the task holds

    def _recorded(self) -> tuple[InputSpec, ...]:
        known = {field.name for field in fields(InputSpec)}
        return tuple(
            InputSpec(**{key: value for key, value in spec.items() if key in known}) for spec in self._settings.inputs
        )

    def _opened(self) -> tuple[InputSpec, ...]:
        """From the data, where they are still there."""
        try:
            return self._whole_task().inputs
        except (DataError, NotFoundError):
            return ()

    def _whole_task(self) -> MultitaskTask:
        if self._task is None:
            own = validate(MultitaskSettings, self._settings.task, what="settings of the task")
            self._task = MultitaskTask.open(own, self._cache_folder, self._settings.task_key)
        return self._task

    def class_names(self) -> tuple[str, ...]:
        """Names of the task's classes; empty where they were not recorded and its data are gone."""
        if self._settings.class_names:
            return self._settings.class_names
        try:
            return self._whole_task().outputs[0].names
        except (DataError, NotFoundError):
            return ()


def own_input(specification: Mapping[str, Any]) -> InputSpec | None:
    """The input of a path from its own input specification; None for one that is neither an image nor a text.

    A text is handed out in more bytes than the path has tokens, since one token may cover several.
    """
    if specification.get("modality") == "image":
        side, channels = specification["size"][0], specification["channels"]
        return InputSpec("image", "image", height=side, width=side, channels=channels)
    if specification.get("modality") == "tokens":
        return InputSpec(
            "text", "tokens", length=_MOST_BYTES * specification["length"], vocabulary=len(_BYTES.token_bytes())
        )
    return None


def _alone(own: InputSpec | None) -> tuple[InputSpec, ...]:
    if own is None:
        raise DataError("the data of this task are gone, and nobody recorded what a sample of it holds.")
    return (own,)


def _pixels(image: NDArray[Any], spec: InputSpec) -> NDArray[np.uint8]:
    """An array as an image of an input."""
    if spec.modality != "image":
        raise UsageError(f"the input {spec.name!r} is no image ({spec.modality}).")
    whole = image[..., None] if image.ndim == 2 else image
    if whole.dtype != np.uint8 or whole.ndim != 3 or whole.shape[2] not in (1, 3) or not whole.size:
        raise UsageError(
            "an image is an array of bytes (uint8, 0 to 255) of shape (height, width) or (height, width, 1 or 3); "
            f"{image.dtype} of shape {image.shape} was given."
        )
    colour: Any = "grey" if spec.channels == 1 else "rgb"
    pixels: NDArray[np.uint8] = uniform([whole], (spec.height, spec.width), colour, "the array")[0]
    return pixels


def _column(spec: InputSpec, names: Sequence[str], place: Path) -> str:
    """The column of a table that holds an input."""
    wanted = (spec.name, *COLUMNS.get(spec.modality, ()))
    for column in wanted:
        if column in names:
            return column
    raise UsageError(
        f"{place} has no column for the input {spec.name!r}; it has {quoted_list(names) or 'none'}. Call the column"
        f" {quoted_list(dict.fromkeys(wanted))}."
    )

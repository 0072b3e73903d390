"""The task ``rows``: rows of a table with one class each; what a column holds is found by its values.

Numbers, categories, dates and lists of numbers are read; other columns are left out, and named in ``describe()``. The
numbers are handed out as they are: a network standardises them by its own training samples.

Shapes: B samples, G numbers of a vector.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from evodevo import canonical
from evodevo.errors import DataError, UsageError, quoted_list
from evodevo.settings import Settings, validate
from evodevo.tasks import sample_baselines
from evodevo.tasks.base import SPLITS, OutputSpec, SampleTask, Split
from evodevo.tasks.inputs import Batch
from evodevo.tasks.rows import sources, vectors
from evodevo.tasks.rows.samples import RowReading
from evodevo.tasks.rows.sources import Rows
from evodevo.tasks.rows.targets import Targets, known, refuse_quantity
from evodevo.tasks.sample_splits import Pool, assign, columns_digest, fingerprint
from evodevo.tasks.split_files import pool_of, splits_in, with_others
from evodevo.tasks.table import rows as table_rows
from evodevo.tasks.text.token_cache import CachedTokens, TokenCache, recall

_VERSION = 1
LABELS = ("label", "y")
"""Columns that hold the class where none is named, the first of them that there is."""


class RowsSettings(Settings):
    """Files, and the column of the class."""

    data: str | None = Field(
        default=None,
        description="a .csv, .jsonl, .npz (or .gz, .xz) or .parquet file, a sample per row; or a folder with such files"
        " called train, validation and test",
    )
    validation: str | None = Field(default=None, description="the same for the validation split")
    test: str | None = Field(default=None, description="the same for the test split")
    label: str | None = Field(default=None, min_length=1, description="column of the class; none is 'label', else 'y'")
    ignore: tuple[str, ...] = Field(default=(), description="columns that are no inputs")


class RowsTask(SampleTask):
    """One class per row. Inputs: one vector, see ``tasks.rows.vectors``.

    Args:
        settings: Settings of the task.
        key: 64 hexadecimal digits over the rows, their columns and the split; equal in every process.
        entry: Vectors and classes of each split, and the reading of the columns.
    """

    name: ClassVar[str] = "rows"
    settings_class: ClassVar[type[Settings]] = RowsSettings

    def __init__(self, settings: RowsSettings, key: str, entry: CachedTokens) -> None:
        self.settings, self.key = settings, key
        self.digest = canonical.digest({"task": self.name, "key": key})
        self._info, self._arrays = entry.info, entry.arrays
        self.reading = validate(RowReading, entry.info["reading"], what="the reading of the columns")
        self.inputs = (vectors.input_of(self.reading),)
        names = tuple(entry.info["classes"])
        self.outputs = (OutputSpec("label", "class", len(names), names),)
        self.group_names = {}

    @classmethod
    def open(cls, settings: RowsSettings, cache_folder: Path | None = None, key: str | None = None) -> RowsTask:
        return cls(settings, *recall(settings, cache_folder, key, _prepared))

    @property
    def row_columns(self) -> tuple[dict[str, Any], ...]:
        """The columns that are read, JSON: all that the conversion of further rows needs."""
        return tuple(column.model_dump(mode="json") for column in self.reading.columns)

    def count(self, split: Split) -> int:
        return len(self._arrays[f"label_{split}"])

    def fetch(self, split: Split, indices: NDArray[np.int64]) -> Batch:
        labels = self._arrays[f"label_{split}"][indices].astype(np.int64)
        return {vectors.ROW: self._vectors(split)[indices], "label/target": labels}

    def groups(self, split: Split, indices: NDArray[np.int64]) -> dict[str, NDArray[np.int64]]:
        return {}

    def show(self, split: Split, index: int) -> dict[str, str]:
        row = vectors.words_of(self.reading, self._vectors(split)[index])
        return {vectors.ROW: row, "label": self.outputs[0].names[int(self._arrays[f"label_{split}"][index])]}

    def read_sample(self, columns: Mapping[str, str]) -> Batch:
        """A user's row from column -> value; columns that are left out are missing.

        Raises:
            DataError: It has no column of the training rows.
        """
        cells = {name: [value] for name, value in columns.items()}
        return {vectors.ROW: vectors.vectors_of(self.reading, Rows("the sample", 1, cells))}

    def read_rows(self, path: Path, size: int = 64) -> Iterator[Batch]:
        """The rows of a file, which needs no column of the class.

        Raises:
            DataError: The file cannot be read, or has no column of the training rows.
        """
        table = vectors.vectors_of(self.reading, sources.read(path))
        for start in range(0, len(table), size):
            yield {vectors.ROW: table[start : start + size]}

    def baselines(self, split: Split) -> dict[str, float]:
        """Accuracy of the commonest class, and of logistic regression."""
        train, held = (self.fetch(part, np.arange(self.count(part))) for part in ("train", split))
        mean, deviation = train[vectors.ROW].mean(0), train[vectors.ROW].std(0)
        scaled = [(part[vectors.ROW] - mean) / np.where(deviation > 0, deviation, 1) for part in (train, held)]
        key = "label/target"
        return {
            "majority": sample_baselines.constant(train[key], held[key]),
            "logistic regression": sample_baselines.logistic(scaled[0], train[key], scaled[1], held[key]),
        }

    def describe(self) -> dict[str, Any]:
        return {
            "task": self.name,
            "digest": self.digest,
            "key": self.key,
            "samples": {split: self.count(split) for split in SPLITS},
            "outputs": {"label": list(self.outputs[0].names)},
            "columns": vectors.counted(self.reading.columns),
            **{name: self._info[name] for name in ("source", "label", "left_out", "without_class", "split_rule")},
        }

    def _vectors(self, split: Split) -> NDArray[np.float32]:
        flat: NDArray[np.float32] = np.asarray(self._arrays[f"vectors_{split}"]).view(np.float32)
        return flat.reshape(-1, vectors.size_of(self.reading))


def _prepared(settings: RowsSettings, cache: TokenCache) -> tuple[str, CachedTokens]:
    parts = _parts(settings)
    label = _label(settings, parts[0][1])
    named = [[pool, columns_digest(part.cells)] for pool, part in parts]
    key = canonical.digest(
        {"task": "rows", "version": _VERSION, "label": label, "ignore": list(settings.ignore), "parts": named}
    )
    return key, cache.get(key) or cache.put(key, _divided(settings, label, parts))


def _parts(settings: RowsSettings) -> list[tuple[Pool, Rows]]:
    """The rows of each file, those of ``data`` first, and the splits that they may belong to."""
    if settings.data is None:
        raise DataError(f"the task 'rows' has no data of its own. Give {sources.FORMS}.")
    folder = Path(settings.data).expanduser()
    if splits := splits_in(folder, lambda entry: entry.is_file() and sources.is_file_of_rows(entry)):
        return _of_folder(settings, folder, splits)
    given: list[tuple[Pool, str | None]] = [
        ("all" if settings.test is None else "train_validation", settings.data),
        ("validation", settings.validation),
        ("test", settings.test),
    ]
    return [(pool, sources.read(Path(name).expanduser())) for pool, name in given if name is not None]


def _of_folder(settings: RowsSettings, folder: Path, splits: dict[Split, Path]) -> list[tuple[Pool, Rows]]:
    """The rows of a folder with a file for each split, as ``_parts``.

    Raises:
        DataError: A file lacks a column of the training file: all of it would count as missing.
    """
    named: dict[Split, str | None] = {"validation": settings.validation, "test": settings.test}
    others = {split: None if name is None else Path(name).expanduser() for split, name in named.items()}
    given = with_others(splits, folder, others)
    order = sorted(given, key=SPLITS.index)
    parts = [(pool_of(split, given), sources.read(given[split])) for split in order]
    wanted = [name for name in parts[0][1].names if name not in settings.ignore]
    for _, part in parts[1:]:
        lacking = [name for name in wanted if name not in part.names]
        if lacking:
            raise DataError(
                f"{part.source} lacks {len(lacking)} of the columns of {parts[0][1].source}: {quoted_list(lacking[:8])}"
                f" (there: {quoted_list(part.names[:16])}). All files of a folder need the same columns; those that are"
                " no inputs may be ignored: --set task.options.ignore='[\"NAME\"]'."
            )
    return parts


def _label(settings: RowsSettings, rows: Rows) -> str:
    """The column of the class.

    Raises:
        DataError: There is none, or a column to be ignored is none.
    """
    for name in (*([settings.label] if settings.label else []), *settings.ignore):
        if name not in rows.names:
            raise table_rows.missing_column(name, rows.names, rows.source)
    found = settings.label or next((name for name in LABELS if name in rows.cells), None)
    if found is None:
        raise DataError(
            f"{rows.source} has no column {LABELS[0]!r} (there: {quoted_list(rows.names[:16])}). Name the column of the"
            " class: --label COLUMN."
        )
    return found


def _divided(settings: RowsSettings, label: str, parts: Sequence[tuple[Pool, Rows]]) -> CachedTokens:
    """The prepared rows of each split.

    Raises:
        DataError: No column can be read, one class alone, or a split without rows.
    """
    first = parts[0][1]
    try:
        reading, left_out = vectors.reading_of(first, label, settings.ignore)
        refuse_quantity(first, label)
        targets = Targets.of(first, label, kind="class")
        if targets.kind != "class":
            raise UsageError(f"{label!r} of {first.source} holds several labels in a row; one class is asked for.")
    except UsageError as error:
        raise DataError(str(error)) from None
    answers = np.concatenate([targets.read(part) for _, part in parts]).astype(np.int64)
    rows = np.concatenate([vectors.vectors_of(reading, part) for _, part in parts])
    pools = [pool for pool, part in parts for _ in range(part.count)]
    kept = np.flatnonzero(known(answers))
    contents = [fingerprint(row.tobytes()) for row in rows[kept]]
    divided = assign(contents, [pools[row] for row in kept], classes=answers[kept].tolist())
    arrays: dict[str, NDArray[Any]] = {}
    for split, places in divided.places.items():
        chosen = kept[places]
        # The cache stores unsigned integers only, so that numbers are stored by their bits.
        arrays[f"vectors_{split}"] = rows[chosen].reshape(-1).view(np.uint32)
        arrays[f"label_{split}"] = answers[chosen].astype(np.uint32)
    info = {
        "source": first.source,
        "label": label,
        "reading": reading.model_dump(mode="json"),
        "classes": list(targets.names),
        "left_out": left_out,
        "without_class": len(answers) - len(kept),
        "split_rule": divided.rule,
    }
    return CachedTokens(arrays, b"", info)

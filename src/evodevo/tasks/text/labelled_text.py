"""Reading of a user's labelled texts: rows of a file, a folder per class, or one of these per split."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from evodevo import files
from evodevo.errors import DataError
from evodevo.tasks.base import Split
from evodevo.tasks.sample_splits import Pool
from evodevo.tasks.split_files import pool_of, splits_in, with_others
from evodevo.tasks.table import rows
from evodevo.tasks.text import corpus

_HOW = (
    "Give a .jsonl or .csv file (also .gz, .xz) or a .parquet file with a column of texts and one of labels, a folder "
    "with one folder of texts per class, or a folder that holds train, validation and test as such files or folders"
)

NO_GROUP = "(empty)"


@dataclass(frozen=True)
class LabelledTexts:
    """Texts in the order in which they were read.

    Attributes:
        source: Origin of the texts, for display.
        texts: Texts as UTF-8, none of them blank.
        labels: Label of each text.
        pools: Splits that each text may belong to.
        empty: Number of blank texts, which were left out.
        first: Text of the first of several columns, of each text; empty where there is one column.
        groups: Value of the column of groups, of each text; empty where there is none.
    """

    source: str
    texts: tuple[bytes, ...]
    labels: tuple[str, ...]
    pools: tuple[Pool, ...]
    empty: int
    first: tuple[bytes, ...] = ()
    groups: tuple[str, ...] = ()


@dataclass(frozen=True)
class TextFields:
    """Columns of files, and what is read of folders.

    Attributes:
        texts: Columns of the texts; the text of a sample is theirs, a line each.
        label: Column of the labels.
        group: Column of the groups; None where there is none.
        everything: Whether README and licence files in folders of classes are texts too.
    """

    texts: tuple[str, ...] = ("text",)
    label: str = "label"
    group: str | None = None
    everything: bool = True


def read(data: Path, fields: TextFields, *, validation: Path | None = None, test: Path | None = None) -> LabelledTexts:
    """All labelled texts of one or several places.

    Args:
        data: File, folder with a folder per class, or folder with a file or folder per split.
        fields: Columns of files, and what is read of folders.
        validation: File or folder of the validation split, beside ``data``; None where there is none.
        test: File or folder of the test split, beside ``data``; None where there is none.

    Raises:
        DataError: A path does not exist or is unreadable, a column is missing, or a split is given twice.
    """
    found_splits: dict[Split, Path] = splits_in(data.expanduser(), _is_split) or {"train": data}
    given = with_others(found_splits, data, {"validation": validation, "test": test})
    found: list[tuple[_Row, Pool]] = []
    empty = 0
    for split, path in given.items():
        pool = pool_of(split, given)
        for row in _labelled(path.expanduser(), fields):
            if row.text.strip():
                found.append((row, pool))
            else:
                empty += 1
    return LabelledTexts(
        ", ".join(str(path) for path in given.values()),
        tuple(row.text for row, _ in found),
        tuple(row.label for row, _ in found),
        tuple(pool for _, pool in found),
        empty,
        tuple(row.first for row, _ in found) if len(fields.texts) > 1 else (),
        tuple(row.group for row, _ in found) if fields.group is not None else (),
    )


class _Row(NamedTuple):
    text: bytes
    label: str
    first: bytes = b""
    group: str = ""


def _is_split(entry: Path) -> bool:
    """Whether an entry called after a split holds its texts."""
    return entry.is_dir() or corpus.suffixes(entry)[0] in rows.READABLE


def _labelled(path: Path, fields: TextFields) -> Iterator[_Row]:
    if path.is_dir():
        files.refuse_links_outside(path)
        if fields.group is not None or len(fields.texts) > 1:
            raise DataError(f"{path} is a folder of classes, which has no columns. {_HOW}.")
        classes = [entry for entry in _entries(path) if entry.is_dir()]
        if not classes:
            raise DataError(f"the folder {path} holds neither classes nor splits. {_HOW}.")
        for folder in classes:
            for document in corpus.read(folder, field=fields.texts[0], everything=fields.everything).documents:
                yield _Row(document, folder.name)
    elif path.is_file():
        columns = (*fields.texts, fields.label, *([] if fields.group is None else [fields.group]))
        for values in rows.read(path, columns):
            parts = [text.encode("utf-8") for text in values[: len(fields.texts)]]
            label, *group = values[len(fields.texts) :]
            yield _Row(b"\n".join(parts), label, parts[0], group[0].strip() or NO_GROUP if group else "")
    else:
        raise DataError(f"there is nothing at {path}. {_HOW}.")


def _entries(folder: Path) -> list[Path]:
    return sorted(entry for entry in folder.iterdir() if not entry.name.startswith("."))

"""Reading of rows with named columns from JSON lines, CSV and parquet."""

from __future__ import annotations

import csv
import difflib
import io
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from evodevo import canonical, files
from evodevo.errors import DataError, UsageError, quoted_list
from evodevo.tasks import parquet
from evodevo.tasks.table.delimiters import DELIMITERS, delimiter_of
from evodevo.tasks.text import corpus

SUFFIXES = frozenset({".jsonl", ".csv"})
READABLE = SUFFIXES | {".parquet"}
MAX_COLUMNS = 100_000


def read(path: Path, columns: Sequence[str], *, separator: str | None = None) -> Iterator[tuple[str, ...]]:
    """The values of some columns, row by row, as text.

    Args:
        path: File with the suffix .jsonl or .csv, plain or .gz or .xz, or .parquet; the first line of a CSV file names
            its columns.
        columns: Names of the columns, in order; whole numbers and booleans of JSON become text.
        separator: Separator with which the texts of a JSON list are joined; None refuses lists.

    Raises:
        DataError: The file is unreadable, lacks a column (the message has the nearest one), or a value is no text (the
            message has the line).
        MissingExtraError: A parquet file needs pyarrow.
    """
    if corpus.suffixes(path)[0] == ".parquet":
        yield from _parquet_values(path, columns)
        return
    suffix, text = text_of(path)
    if suffix == ".jsonl":
        yield from _json_values(text, path, columns, separator)
    else:
        yield from _comma_separated_values(text, path, columns)


def text_of(path: Path) -> tuple[str, str]:
    """The suffix and the whole text of a file of rows.

    Raises:
        DataError: The file has another suffix, is unreadable, too large, or not UTF-8.
    """
    suffix, compression = corpus.suffixes(path)
    if suffix not in SUFFIXES:
        raise DataError(
            f"{path} is neither .jsonl nor .csv (also .gz, .xz) nor .parquet. Convert it, or give another file."
        )
    with files.unpacked(path, compression, corpus.MAX_CORPUS_BYTES) as stream:
        data = stream.read()
    return suffix, corpus.as_text(data, str(path)).decode("utf-8")


def json_lines(text: str, path: Path, wanted: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The location (file and line, for messages) and value of each object in a JSONL file.

    Args:
        text: Text of the file.
        path: Path of the file, for messages.
        wanted: Description of an object, for messages.

    Raises:
        DataError: A line is no JSON object.
    """
    # Not splitlines, which also splits at U+2028 and similar characters that JSON strings may contain.
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        place = f"{path}, line {number}"
        try:
            row = canonical.loads(line, what=place, max_bytes=corpus.MAX_LINE_BYTES)
        except UsageError as error:
            raise DataError(f"{error} Each line must be one JSON object.") from None
        if not isinstance(row, dict):
            raise DataError(f"{place} is not a JSON object with {wanted}.")
        yield place, row


def comma_separated(text: str, path: Path) -> Iterator[list[str]]:
    """The rows of a CSV file, the names of the columns first; all have as many values as there are names.

    Values are separated by commas, semicolons or tabs, as ``delimiters.delimiter_of`` finds.

    Raises:
        DataError: The text is not CSV, or a row has more or fewer values.
    """
    delimiter = delimiter_of(text)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    try:
        header = next(reader, [])
        if len(header) > MAX_COLUMNS:
            raise DataError(f"{path} has {len(header):,} columns; at most {MAX_COLUMNS:,} are read.")
        twice = sorted(name for name, count in Counter(header).items() if count > 1)
        if twice:
            raise DataError(
                f"{path} names the columns {quoted_list(twice[:8])} more than once. Give each its own name."
            )
        yield header
        for row in reader:
            if row:
                if len(row) != len(header):
                    raise DataError(
                        f"{path}, line {reader.line_num} has {len(row)} values for {len(header)} columns. Put values "
                        f"that hold {DELIMITERS[delimiter]} between double quotes."
                    )
                yield row
    except csv.Error as error:
        raise DataError(f"{path}, line {reader.line_num} is not CSV: {error}.") from None


def missing_column(column: str, there: Iterable[str], place: str) -> DataError:
    """The error for a missing column; its message has the nearest one and the existing ones."""
    names = list(there)
    near = difflib.get_close_matches(column, names, n=1, cutoff=0.5)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return DataError(
        f"{place} has no column {column!r}.{hint} There: {quoted_list(names[:16]) or 'none'}. Name the columns in the "
        "task's settings."
    )


def _json_values(text: str, path: Path, columns: Sequence[str], separator: str | None) -> Iterator[tuple[str, ...]]:
    for place, row in json_lines(text, path, f"the columns {quoted_list(columns)}"):
        for column in columns:
            if column not in row:
                raise missing_column(column, row, place)
        yield tuple(_as_text(row[column], column, place, separator) for column in columns)


def _comma_separated_values(text: str, path: Path, columns: Sequence[str]) -> Iterator[tuple[str, ...]]:
    lines = comma_separated(text, path)
    header = next(lines)
    for column in columns:
        if column not in header:
            raise missing_column(column, header, f"{path}, line 1")
    indices = [header.index(column) for column in columns]
    for row in lines:
        yield tuple(row[index] for index in indices)


def _parquet_values(path: Path, columns: Sequence[str]) -> Iterator[tuple[str, ...]]:
    names, _ = parquet.header(path)
    for column in columns:
        if column not in names:
            raise missing_column(column, names, str(path))
    distinct = list(dict.fromkeys(columns))
    read = dict(zip(distinct, parquet.columns(path, distinct, corpus.MAX_CORPUS_BYTES), strict=True))
    for number, values in enumerate(zip(*read.values(), strict=True), start=1):
        place = f"{path}, row {number}"
        texts = {name: corpus.as_text(value, place).decode() for name, value in zip(read, values, strict=True)}
        yield tuple(texts[column] for column in columns)


def _as_text(value: Any, column: str, place: str, separator: str | None) -> str:
    if separator is not None and isinstance(value, list):
        pieces = [_as_text(piece, column, place, None) for piece in value]
        if any(separator in piece for piece in pieces):
            raise DataError(f"{place}: an item of {column!r} holds the separator {separator!r}. Choose another one.")
        return separator.join(pieces)
    if isinstance(value, bool | int):
        return str(value)
    if isinstance(value, str):
        corpus.encoded(value, place)  # refuses lone surrogates, which JSON can express
        return value
    raise DataError(f"{place}: {column!r} holds {type(value).__name__}, and text or a whole number is wanted.")

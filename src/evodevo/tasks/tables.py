"""Whole tables of named columns from CSV, JSON lines and parquet; values are text, and empty where they are missing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from evodevo import canonical
from evodevo.errors import DataError, missing_extra, quoted_list
from evodevo.tasks import corpus, rows

Table = dict[str, list[str]]
"""Column -> one text per row."""

HOW_TO_GIVE_ROWS = "Give a .csv or .jsonl file (also .gz, .xz) or a .parquet file, with one sample per row"


def read(path: Path) -> Table:
    """All columns of a file.

    Of a CSV file the first line names the columns. JSON's and parquet's numbers and booleans become text; lists become
    JSON; null, NaN, infinity and keys that a line leaves out become the empty
    text.

    Raises:
        DataError: not there, unreadable, without rows, a column named twice, rows of different lengths, or values that
            are none of these.
        MissingExtraError: a parquet file without pyarrow.
    """
    if not path.is_file():
        raise DataError(f"there is no file at {path}. {HOW_TO_GIVE_ROWS}.")
    suffix, _ = corpus.suffixes(path)
    if suffix == ".parquet":
        table = _parquet(path)
    elif suffix in rows.SUFFIXES:
        _, text = rows.text_of(path)
        table = _json_lines(text, path) if suffix == ".jsonl" else _comma_separated(text, path)
    else:
        raise DataError(f"{path} is no table. {HOW_TO_GIVE_ROWS}.")
    if not table or not next(iter(table.values())):
        raise DataError(f"{path} has no rows. {HOW_TO_GIVE_ROWS}.")
    return table


def check_columns(table: Table, wanted: Sequence[str], path: Path) -> None:
    """Every wanted column is there.

    Raises:
        DataError: one is not; with the nearest one.
    """
    for column in wanted:
        if column not in table:
            error = rows.missing_column(column, table, str(path))
            only = next(iter(table))
            for mark, name in ((";", "semicolons"), ("\t", "tabs")):
                if len(table) == 1 and mark in only:
                    raise DataError(f"{error} Its values seem to be separated by {name}; commas are wanted.")
            raise error


def _json_lines(text: str, path: Path) -> Table:
    found = list(rows.json_lines(text, path, "one value per column"))
    names = list(dict.fromkeys(name for _, row in found for name in row))
    return {name: [_as_text(row.get(name), f"{place}: {name!r}") for place, row in found] for name in names}


def _comma_separated(text: str, path: Path) -> Table:
    found = rows.comma_separated(text, path)
    header = next(found)
    twice = sorted({name for name in header if header.count(name) > 1})
    if twice:
        raise DataError(f"{path} names the columns {quoted_list(twice[:8])} more than once. Give each its own name.")
    values = list(zip(*found, strict=True))
    return dict(zip(header, map(list, values), strict=True)) if values else {name: [] for name in header}


def _parquet(path: Path) -> Table:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise missing_extra("pyarrow", "data", f"reading {path}") from None
    try:
        with parquet.ParquetFile(path) as file:
            names = list(file.schema_arrow.names)
            table: Table = {name: [] for name in names}
            room = corpus.MAX_CORPUS_BYTES
            for batch in file.iter_batches(batch_size=1024):
                for name, column in zip(names, batch.columns, strict=True):
                    start = len(table[name])
                    for row, value in enumerate(column.to_pylist(), start=start + 1):
                        table[name].append(_as_text(value, f"{path}, row {row}: {name!r}"))
                    room -= sum(map(len, table[name][start:]))
                if room < 0:
                    raise DataError(f"{path} holds more than {corpus.MAX_CORPUS_BYTES:,} letters. Give smaller files.")
            return table
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} is not a readable parquet file: {error}") from None


def _as_text(value: Any, place: str) -> str:
    if _missing(value):
        return ""
    if isinstance(value, str):
        corpus.encoded(value, place)  # refuses half surrogate pairs, which JSON can spell
        return value
    if isinstance(value, bool | int | float):
        return str(value)
    if isinstance(value, list) and all(piece is None or isinstance(piece, str | bool | int | float) for piece in value):
        text = canonical.dumps([None if _missing(piece) else piece for piece in value])
        corpus.encoded(text, place)
        return text
    raise DataError(f"{place} holds {type(value).__name__}; wanted are text, numbers, and lists of them.")


def _missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and not math.isfinite(value))

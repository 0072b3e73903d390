"""Reading of tables with named columns from CSV, JSON lines and parquet; values are text, empty where missing."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from evodevo import canonical
from evodevo.errors import DataError, missing_extra, quoted_list
from evodevo.tasks.table import rows
from evodevo.tasks.text import corpus

T = TypeVar("T")

HOW_TO_GIVE_ROWS = "Give a .csv or .jsonl file (also .gz, .xz) or a .parquet file, with one sample per row"


class ColumnTable(Mapping[str, list[str]]):
    """Column -> one text per row. A column is converted on access, so that unused columns may have any values.

    Args:
        names: Names of the columns.
        rows: Number of rows.
        column: Function from a name to the texts of that column.
    """

    def __init__(self, names: Sequence[str], rows: int, column: Callable[[str], list[str]]) -> None:
        self._names = dict.fromkeys(names)
        self._column = column
        self.rows = rows

    def __getitem__(self, name: str) -> list[str]:
        if name not in self._names:
            raise KeyError(name)
        return self._column(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def read(path: Path) -> ColumnTable:
    """The table in a file.

    The first line of a CSV file has the names of the columns. Numbers and booleans of JSON and parquet become text;
    lists become JSON; null, NaN, infinity and missing keys become the empty text.

    Raises:
        DataError: The file is missing or unreadable, has no rows, a repeated column name, or rows of different lengths;
            also on access to a column with other values.
        MissingExtraError: A parquet file needs pyarrow.
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
    if not table or not table.rows:
        raise DataError(f"{path} has no rows. {HOW_TO_GIVE_ROWS}.")
    return table


def check_columns(table: ColumnTable, wanted: Sequence[str], path: Path) -> None:
    """Check that the table has all wanted columns.

    Raises:
        DataError: A column is missing; the message has the nearest one.
    """
    for column in wanted:
        if column not in table:
            error = rows.missing_column(column, table, str(path))
            only = next(iter(table))
            for mark, name in ((";", "semicolons"), ("\t", "tabs")):
                if len(table) == 1 and mark in only:
                    raise DataError(f"{error} Its values seem to be separated by {name}; commas are wanted.")
            raise error


def _json_lines(text: str, path: Path) -> ColumnTable:
    objects = list(rows.json_lines(text, path, "one value per column"))

    def column(name: str) -> list[str]:
        return [_as_text(row.get(name), f"{place}: {name!r}") for place, row in objects]

    return ColumnTable([name for _, row in objects for name in row], len(objects), column)


def _comma_separated(text: str, path: Path) -> ColumnTable:
    header, *lines = rows.comma_separated(text, path)
    twice = sorted({name for name in header if header.count(name) > 1})
    if twice:
        raise DataError(f"{path} names the columns {quoted_list(twice[:8])} more than once. Give each its own name.")
    index_of = {name: index for index, name in enumerate(header)}
    return ColumnTable(header, len(lines), lambda name: [row[index_of[name]] for row in lines])


def _parquet(path: Path) -> ColumnTable:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise missing_extra("pyarrow", "data", f"reading {path}") from None

    def opened(action: Callable[[Any], T]) -> T:
        try:
            with parquet.ParquetFile(path) as file:
                return action(file)
        except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
            raise DataError(f"{path} is not a readable parquet file: {error}") from None

    def column(name: str) -> list[str]:
        return opened(lambda file: _parquet_column(file, name, path))

    names, count = opened(lambda file: (list(file.schema_arrow.names), file.metadata.num_rows))
    return ColumnTable(names, count, column)


def _parquet_column(file: Any, name: str, path: Path) -> list[str]:
    texts: list[str] = []
    room = corpus.MAX_CORPUS_BYTES
    for batch in file.iter_batches(batch_size=1024, columns=[name]):
        for value in batch.column(0).to_pylist():
            texts.append(_as_text(value, f"{path}, row {len(texts) + 1}: {name!r}"))
            room -= len(texts[-1])
        if room < 0:
            raise DataError(
                f"{path}: {name!r} holds more than {corpus.MAX_CORPUS_BYTES:,} letters. Give smaller files."
            )
    return texts


def _as_text(value: Any, place: str) -> str:
    if _missing(value):
        return ""
    if isinstance(value, str):
        corpus.encoded(value, place)  # refuses lone surrogates, which JSON can express
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

"""Reading of columns of parquet files as text, in a limited process: the format can state more than a machine has."""

from __future__ import annotations

import importlib.util
from array import array
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from evodevo import files
from evodevo.errors import DataError, missing_extra, quoted_list
from evodevo.execution.limited import limited
from evodevo.tasks.cell_values import text_of

MAX_FILE_BYTES = 16 * files.GIB
MAX_ROWS = 2**27
MAX_COLUMNS = 100_000
_SECONDS, _BYTES_PER_SECOND = 120.0, files.MIB
_MEMORY, _MOST_MEMORY = files.GIB, 8 * files.GIB
_TOGETHER = 256 * files.MIB
_BATCH = 1024
_LENGTH = 8  # bytes of a length in the answer


def header(path: Path) -> tuple[list[str], int]:
    """Names of the columns in order, and the number of rows.

    Raises:
        DataError: No readable parquet file; the message names it.
        MissingExtraError: pyarrow is not installed.
    """
    names, rows, _ = _limited(describe, path, [], 0)[0]
    return list(names), int(rows)


def texts(path: Path, name: str, room: Callable[[], int]) -> Iterator[bytes]:
    """The texts of a column as UTF-8, some row groups at a time, so that a large file does not fill the memory.

    Args:
        path: A parquet file.
        name: Name of a column of text.
        room: Asked before each reading for the most bytes that it may have.

    Raises:
        DataError, MissingExtraError: See ``columns``.
    """
    _, _, sizes = _limited(describe, path, [], 0)[0]
    first, together = 0, 0
    for group, size in enumerate([*sizes, _TOGETHER + 1]):
        if together and together + size > _TOGETHER:
            (some,) = columns(path, [name], room(), only_text=True, groups=(first, group))
            yield from some
            first, together = group, 0
        together += max(1, size)
    if not sizes:
        columns(path, [name], room(), only_text=True)


def columns(
    path: Path, names: Sequence[str], most: int, *, only_text: bool = False, groups: tuple[int, int] | None = None
) -> list[Iterator[bytes]]:
    """The values of some columns as UTF-8 text, a stream for each.

    Args:
        path: A parquet file.
        names: Names of the columns.
        most: Most bytes that they may have together, after decompression.
        only_text: Whether columns of anything but text are refused; else see ``text_of``.
        groups: First row group that is read and the one behind the last; None = all.

    Raises:
        DataError: The file cannot be read, has no such column, holds too much, or a value is no text.
        MissingExtraError: pyarrow is not installed.
    """
    facts, data = _limited(convert, path, [list(names), most, only_text, groups], most)
    return [_texts(data, *place) for place in facts]


def _texts(data: memoryview, begin: int, lengths: int, count: int) -> Iterator[bytes]:
    ends: Any = begin + np.cumsum(np.frombuffer(data, "<u8", count, lengths)).astype(np.int64) if count else []
    for end in ends:
        yield bytes(data[begin:end])
        begin = int(end)


def _limited(function: Any, path: Path, arguments: list[Any], most: int) -> tuple[Any, memoryview]:
    if importlib.util.find_spec("pyarrow") is None:
        raise missing_extra("pyarrow", "data", f"reading {path}")
    with files.opened(path, MAX_FILE_BYTES) as file:
        size = file.seek(0, 2)
    answer = limited(
        function,
        [str(path), *arguments],
        what=str(path),
        fault="is not a readable parquet file",
        seconds=_SECONDS + size / _BYTES_PER_SECOND,
        memory_bytes=min(_MOST_MEMORY, _MEMORY + 8 * size),
        most_bytes=most and most + _LENGTH * (MAX_ROWS + 1),
    )
    return answer.facts, answer.data


# What follows runs in the limited process.


def describe(out: BinaryIO, name: str) -> tuple[list[str], int, list[int]]:
    """Names of the columns, number of rows, and bytes of each row group."""
    with _opened(Path(name)) as file:
        facts = file.metadata
        sizes = [facts.row_group(group).total_byte_size for group in range(facts.num_row_groups)]
        return list(file.schema_arrow.names), facts.num_rows, sizes


def convert(
    out: BinaryIO, name: str, wanted: list[str], most: int, only_text: bool, groups: list[int] | None
) -> list[tuple[int, int, int]]:
    """Write the texts of each column and then their lengths: (begin, begin of the lengths, number of values)."""
    path, places, room = Path(name), [], most
    with _opened(path) as file:
        for column in wanted:
            _check(file.schema_arrow, column, path, only_text)
            begin, lengths = out.tell(), array("Q")
            some = None if groups is None else range(*groups)
            for batch in file.iter_batches(batch_size=_BATCH, columns=[column], row_groups=some, use_threads=False):
                for value in batch.column(0).to_pylist():
                    text = text_of(value, f"{path}, row {len(lengths) + 1}: {column!r}").encode()
                    lengths.append(len(text))
                    room -= len(text)
                    out.write(text)
                if room < 0 or len(lengths) > MAX_ROWS:
                    raise DataError(
                        f"{path}: {column!r} holds more than {most:,} bytes. Give smaller files, or set "
                        f"{files.MOST_INPUT} where there is memory for more."
                    )
            end = out.tell()
            out.write(bytes(-end % _LENGTH))
            places.append((begin, out.tell(), len(lengths)))
            out.write(lengths.tobytes())
    return places


def _opened(path: Path) -> Any:
    from pyarrow import parquet

    file = parquet.ParquetFile(path)
    names, rows = file.schema_arrow.names, file.metadata.num_rows
    if len(names) > MAX_COLUMNS or rows > MAX_ROWS:
        raise DataError(
            f"{path} states {len(names):,} columns and {rows:,} rows; at most "
            f"{MAX_COLUMNS:,} and {MAX_ROWS:,} are read."
        )
    return file


def _check(schema: Any, column: str, path: Path, only_text: bool) -> None:
    if schema.names.count(column) != 1:
        problem = "more than one column" if column in schema.names else "no column"
        raise DataError(
            f"{path} has {problem} {column!r} (there: {quoted_list(schema.names[:16])}). Set the field that holds the "
            "text."
        )
    import pyarrow

    kind = schema.field(column).type
    inner = kind.value_type if pyarrow.types.is_dictionary(kind) else kind
    texts = (pyarrow.types.is_string, pyarrow.types.is_large_string, pyarrow.types.is_string_view)
    if only_text and not any(is_text(inner) for is_text in texts):
        raise DataError(f"the column {column!r} of {path} holds {kind}, not text.")

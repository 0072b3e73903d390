"""Reading of tables with named columns from files and folders; values are text, empty where missing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from evodevo.errors import DataError
from evodevo.tasks import parquet
from evodevo.tasks.cell_values import MISSING, text_of
from evodevo.tasks.table import rows
from evodevo.tasks.table.delimiters import delimiter_of, with_decimal_points
from evodevo.tasks.table.folder import columns_of
from evodevo.tasks.text import corpus

HOW_TO_GIVE_ROWS = (
    "Give a .csv or .jsonl file (also .gz, .xz) or a .parquet file, with one sample per row, or a folder with one "
    "folder of images or .txt files per class"
)


class ColumnTable(Mapping[str, list[str]]):
    """Column -> one text per row. A column is converted on access, so that unused columns may have any values.

    Args:
        names: Names of the columns.
        rows: Number of rows.
        take: Function from names to the texts of each of these columns.
    """

    def __init__(self, names: Sequence[str], rows: int, take: Callable[[Sequence[str]], list[list[str]]]) -> None:
        self._names = dict.fromkeys(names)
        self._take = take
        self.rows = rows

    def some(self, names: Iterable[str]) -> dict[str, list[str]]:
        """Those of these columns that there are, read together."""
        there = [name for name in dict.fromkeys(names) if name in self._names]
        return dict(zip(there, self._take(there), strict=True)) if there else {}

    def __getitem__(self, name: str) -> list[str]:
        if name not in self._names:
            raise KeyError(name)
        return self._take([name])[0]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def read(path: Path) -> ColumnTable:
    """The table in a file, or in a folder with one folder of files per class (``folder.columns_of``).

    The first line of a CSV file has the names of the columns, and shows whether commas, semicolons or tabs separate
    them; decimal commas become points where commas do not. Numbers, booleans and dates become text; lists become
    JSON; null, NaN, infinity and missing keys become the empty text.

    Raises:
        DataError: The file is missing or unreadable, has no rows, a repeated column name, or rows of different lengths;
            or the folder is of another kind; also on access to a column with other values.
        MissingExtraError: A parquet file needs pyarrow.
    """
    if path.is_dir():
        cells = columns_of(path, HOW_TO_GIVE_ROWS)
        count = len(next(iter(cells.values())))
        return ColumnTable(list(cells), count, lambda names: [cells[name] for name in names])
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
            raise rows.missing_column(column, table, str(path))


def _json_lines(text: str, path: Path) -> ColumnTable:
    objects = list(rows.json_lines(text, path, "one value per column"))

    def column(name: str) -> list[str]:
        values = ((row.get(name), f"{place}: {name!r}") for place, row in objects)
        return [_checked(text_of(value, place), place) for value, place in values]

    return ColumnTable([name for _, row in objects for name in row], len(objects), lambda names: [*map(column, names)])


def _comma_separated(text: str, path: Path) -> ColumnTable:
    header, *lines = rows.comma_separated(text, path)
    index_of = {name: index for index, name in enumerate(header)}
    pointed = delimiter_of(text) == ","

    def column(name: str) -> list[str]:
        cells = [row[index_of[name]] for row in lines]
        return cells if pointed else with_decimal_points(cells, MISSING)

    return ColumnTable(header, len(lines), lambda names: [*map(column, names)])


def _parquet(path: Path) -> ColumnTable:
    names, count = parquet.header(path)

    def take(wanted: Sequence[str]) -> list[list[str]]:
        found = parquet.columns(path, wanted, corpus.MAX_CORPUS_BYTES)
        return [
            [_checked(text.decode(), f"{path}, row {row}: {name!r}") for row, text in enumerate(texts, start=1)]
            for name, texts in zip(wanted, found, strict=True)
        ]

    return ColumnTable(names, count, take)


def _checked(text: str, place: str) -> str:
    corpus.encoded(text, place)  # refuses NUL, and lone surrogates, which JSON can express
    return text

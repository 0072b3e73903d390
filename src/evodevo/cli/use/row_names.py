"""Names of the rows that ``evodevo predict`` answers: files of a folder, else numbers."""

from __future__ import annotations

from pathlib import Path

FILE = "file"
"""Head of the column that names the files of a folder."""


def names_of_rows(data: Path, count: int) -> tuple[str, list[str]]:
    """Head and cells of the column that names the rows of data; numbers begin with 1."""
    from evodevo.tasks.table.folder import names_of

    if not data.is_dir():
        return "row", [str(number) for number in range(1, count + 1)]
    return FILE, names_of(data, "Give a table or a folder")

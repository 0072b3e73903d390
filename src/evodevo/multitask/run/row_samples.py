"""Rows of one's own, by the columns that an agent recorded of its task's table: no data of the task are needed.

Shapes: B samples, G numbers of a vector.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from evodevo.errors import UsageError, quoted_list, unknown_name
from evodevo.settings import validate
from evodevo.tasks.inputs import Batch
from evodevo.tasks.rows import sources
from evodevo.tasks.rows.samples import RowReading
from evodevo.tasks.rows.sources import Rows
from evodevo.tasks.rows.vectors import ROW, names_of, vectors_of


class OwnRows:
    """The conversion of a user's rows to vectors.

    Args:
        columns: recorded columns; see ``AgentSettings.columns``.
    """

    def __init__(self, columns: Sequence[Mapping[str, Any]]) -> None:
        plain = {"columns": [dict(column) for column in columns]}
        self._reading = validate(RowReading, plain, what="columns of the task's table")
        self.names = tuple(column.name for column in self._reading.columns)

    @property
    def meanings(self) -> tuple[str, ...]:
        """The meaning of each of the G numbers."""
        return names_of(self._reading)

    @property
    def columns(self) -> tuple[dict[str, Any], ...]:
        """What the cells of each column are read by, JSON; ``numbers``: how many numbers one becomes."""
        return tuple(
            {
                "name": column.name,
                "kind": column.kind,
                "values": list(column.values),
                "form": column.form,
                "numbers": len(column.numbers),
            }
            for column in self._reading.columns
        )

    def read(self, samples: Sequence[Any]) -> Batch:
        """Rows, each column -> value, as one batch (B, G); a column that a row lacks is missing.

        Raises:
            UsageError: something else than a row, a column that the table does not have, or none that it has.
        """
        if not samples:
            return {}
        for sample in samples:
            if not isinstance(sample, Mapping):
                raise UsageError(
                    "a sample of this task is a row of a table; give COLUMN=VALUE, with some of"
                    f" {quoted_list(self.names)}."
                )
            for name in sample:
                if name not in self.names:
                    raise unknown_name("column", name, self.names)
            if not sample:
                raise UsageError(f"the row has no value; give some of {quoted_list(self.names)}.")
        cells = {name: [str(sample.get(name, "")) for sample in samples] for name in self.names}
        return {ROW: vectors_of(self._reading, Rows("the rows", len(samples), cells))}

    def rows(self, place: Path) -> Iterator[tuple[str, Mapping[str, str]]]:
        """(number, row) of a table; columns that the task's table does not have are left out.

        Raises:
            DataError: it cannot be read, or has no column of the task's table.
        """
        given = sources.read(place)
        known = [name for name in self.names if name in given.cells]
        if not known:
            raise UsageError(f"{place} has none of the columns {quoted_list(self.names[:12])}.")
        for number in range(given.count):
            yield str(number + 1), {name: given.cells[name][number] for name in known}

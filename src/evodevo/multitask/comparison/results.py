"""The result of a recipe of multitask systems: one document, tables, a CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from evodevo.multitask.comparison.curves import Curve
from evodevo.multitask.report.recipe_page import recipe_page
from evodevo.report.word_tables import TextTable

Cell = str | int | float | None


@dataclass(frozen=True)
class WordTable:
    """A table of texts.

    Attributes:
        title: title of the table.
        columns: names of the columns; those after the first ``left`` are numbers.
        rows: text.
        left: columns that are aligned on the left.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    left: int = 1


@dataclass(frozen=True)
class RecipeResult:
    """The result of a recipe.

    Attributes:
        recipe, size: name and size of the recipe.
        label: beginning of the names of its systems.
        state: an ``interrupted`` recipe is resumed by the same call.
        document: all results, JSON; for an interrupted one its name alone.
        tables: tables of the results; none for an interrupted one.
        csv: one line per arm, copy and task.
        notes: sentences on the comparison and on limits of the numbers.
        curves: accuracy over cycles, in the order of the rows.
        references: name -> accuracy on validation and on test, from which all curves begin.
    """

    recipe: str
    size: str
    label: str
    state: Literal["finished", "interrupted"]
    document: Mapping[str, Any] = field(default_factory=dict)
    tables: tuple[WordTable, ...] = ()
    csv: str = ""
    notes: tuple[str, ...] = ()
    curves: tuple[Curve, ...] = ()
    references: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    @property
    def page(self) -> str:
        """All of it as one self-contained HTML file."""
        validation, test = ([curve.arm(split) for curve in self.curves] for split in ("validation", "test"))
        return recipe_page(
            f"{self.recipe} {self.size}",
            f"systems {self.label}.*",
            {
                table.title: TextTable(table.columns, table.rows, texts=table.columns[1 : table.left])
                for table in self.tables
            },
            validation,
            test,
            self.notes,
            references=[(name, pair[0]) for name, pair in self.references.items()],
            test_references=[(name, pair[1]) for name, pair in self.references.items()],
        )


def to_csv(columns: Sequence[str], rows: Sequence[Mapping[str, Cell]]) -> str:
    """A header, and one line per row; what is not known is empty."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([["" if (cell := row[name]) is None else cell for name in columns] for row in rows])
    return out.getvalue()


def percent(value: float | None) -> str:
    """A share with one decimal."""
    return "-" if value is None else f"{100 * value:.1f}"


def points(value: float | None) -> str:
    """A difference of shares, signed."""
    return "-" if value is None else f"{100 * value:+.1f}"

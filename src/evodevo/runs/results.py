"""Results of a run that consists of other runs, as text: what ``show`` prints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class ResultTable:
    """One table of results, as text.

    Attributes:
        columns: headings.
        rows: cells, one per column.
        right: headings of the columns that are aligned on the right.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    right: Sequence[str] = ()


@dataclass(frozen=True)
class Results:
    """The results of a composed run, as far as it has come.

    Attributes:
        tables: its stages, then its numbers.
        sentences: statements on the tables.
        note: instructions for reading them; empty without numbers.
    """

    tables: Sequence[ResultTable]
    sentences: Sequence[str] = ()
    note: str = ""

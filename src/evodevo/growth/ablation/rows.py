"""All rows of an ablation, and those that a user means."""

from __future__ import annotations

from collections.abc import Sequence

from evodevo.errors import UsageError, unknown_name
from evodevo.growth.ablation.more import MORE
from evodevo.growth.ablation.row import BLOCKS, AblationRow
from evodevo.growth.ablation.table_3 import A, B, C, D

ALL, TABLE_3 = "all", "table_3"
ROWS: tuple[AblationRow, ...] = (*A, *B, *C, *D, *MORE)


def names_of(wanted: str | Sequence[str]) -> list[str]:
    """Names one by one, of a sequence or of a text with commas."""
    return [name.strip() for name in wanted.split(",") if name.strip()] if isinstance(wanted, str) else list(wanted)


def chosen_rows(wanted: str | Sequence[str]) -> tuple[AblationRow, ...]:
    """The rows that are meant, in the order of the table.

    Args:
        wanted: ``all``, ``table_3`` (its 43), blocks and names of rows; a sequence, or commas between them.

    Raises:
        UsageError: nothing, or an unknown name.
    """
    names = names_of(wanted)
    known = [ALL, TABLE_3, *BLOCKS, *(row.name for row in ROWS)]
    for name in names:
        if name not in known:
            raise unknown_name("row of the ablation", name, known)
    if not names:
        raise UsageError("an ablation needs rows: all, table_3, A, B, C, D, more, or names of rows.")
    return tuple(
        row for row in ROWS if {ALL, row.block, row.name} & set(names) or (TABLE_3 in names and row.block != "more")
    )


def row_called(title: str, block: str) -> AblationRow | None:
    """The row of an arm, by its title and the first letter or word of its block; None for a base."""
    return next((row for row in ROWS if row.title == title and block.split(",")[0] == row.block), None)

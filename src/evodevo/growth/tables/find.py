"""The tables of edits together: in place, and around the modules."""

from __future__ import annotations

from evodevo.growth.around.base import AROUND
from evodevo.growth.in_place.base import EDITS
from evodevo.growth.tables.row import EditRow


def row_of(operation: str) -> type[EditRow] | None:
    """The row of an operation; None where no table holds it."""
    if operation in EDITS:
        return EDITS.get(operation)
    return AROUND.get(operation) if operation in AROUND else None

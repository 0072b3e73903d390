"""``evodevo diff``: differences of two genomes, and of their scores."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from evodevo.cli import output
from evodevo.cli.listing import comparable, print_individuals, record
from evodevo.cli.options import DEFAULT_STORE, Json, StoreFolder
from evodevo.runs.differences import NOTHING

HEADINGS = {"position": "LIV", "integers": "what differs"}
"""Key of a difference -> heading of its column, where they are not the same."""


def diff(
    first: Annotated[str, typer.Argument(metavar="A", help="Beginning of an individual's id, or last.")],
    second: Annotated[str, typer.Argument(metavar="B", help="Beginning of another individual's id, or last.")],
    store: StoreFolder = DEFAULT_STORE,
    json: Json = False,
) -> None:
    """Compare two individuals as networks: LIV by LIV, or setting by setting; genes without effect do not count."""
    from evodevo.errors import UsageError
    from evodevo.runs.archive import Archive

    with Archive(store) as archive:
        a, b = archive.individual(first), archive.individual(second)
        if not comparable(a, b):
            raise UsageError(f"{a.id} and {b.id} are genomes of different spaces; nothing can be compared.")
        distance = a.run.slice.distance(a, b)
        changes = a.run.slice.differences(a, b)
        if json:
            data = {"a": record(a), "b": record(b), "distance": distance, "differences": changes}
            output.document("evodevo.diff/1", data)
            return
        print_individuals([a, b], a.run.goals)
        output.line(f"{len(changes)} {a.run.slice.extent(a, b)} differ (distance {distance:.3f})")
        if changes:
            what, *more = (name for name in changes[0] if name not in ("a", "b"))
            rows = [tuple(_cell(change[name]) for name in (what, "a", "b", *more)) for change in changes]
            head = (HEADINGS.get(what, what), a.name, b.name, *(HEADINGS.get(name, name) for name in more))
            output.table(head, rows, right=("LIV",))


def _cell(value: Any) -> str:
    return NOTHING if value is None else ", ".join(value) if isinstance(value, list) else str(value)

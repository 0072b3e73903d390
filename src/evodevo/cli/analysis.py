"""Analysis of a search: the worth of its operations, and the motifs of its population."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from evodevo.cli import output

if TYPE_CHECKING:
    from evodevo.runs.archive import Run
    from evodevo.runs.operations import Worth
    from evodevo.runs.slices import Motifs

SHOWN = 8
"""Rows of each table for people; ``--json`` and the report have more."""


def analysis_record(run: Run) -> dict[str, Any]:
    """For ``--json``: ``operations`` where the run recorded some, ``motifs`` where its slice counts them."""
    from evodevo.runs.operations import variation_record

    data: dict[str, Any] = {}
    if run.kind != "evolve":
        return data
    record = variation_record(run)
    if record.recorded:
        data["operations"] = record.to_json()
    motifs = run.slice.motifs(run)
    if motifs is not None:
        data["motifs"] = motifs.to_json()
    return data


def show_analysis(run: Run) -> None:
    """Print the tables for people."""
    from evodevo.runs.operations import variation_record

    if run.kind != "evolve":
        return
    record = variation_record(run)
    if record.recorded and record.changed is not None and record.redrawn is not None:
        output.line()
        _show_worth(record.operations)
        output.words(
            f"{record.changed:.1%} of {record.recorded} mutations changed the network, {record.redrawn:.1%} were drawn "
            "more than once; rank change: ranks that a child is in front of its parents, with its standard error."
        )
    motifs = run.slice.motifs(run)
    if motifs is not None:
        _show_motifs(motifs)


def _show_worth(rows: tuple[Worth, ...]) -> None:
    from evodevo.runs.report.operations import change_text

    cells = [
        (
            row.name,
            row.children,
            f"{row.share:.1%}",
            change_text(row),
            "" if row.better is None else f"{row.better:.0%}",
        )
        for row in rows
    ]
    headings = ("operation", "children", "share", "rank change", "better")
    output.table(headings, cells, right=headings[1:])


def _show_motifs(motifs: Motifs) -> None:
    for headings, rows in motifs.tables(SHOWN):
        output.line()
        output.table(headings, rows, right=headings[1:])

"""``evodevo report``: one self-contained HTML file on a run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evodevo.cli import output
from evodevo.cli.files import write_text
from evodevo.cli.options import DEFAULT_STORE, Json, RunName, StoreFolder

if TYPE_CHECKING:
    from evodevo.runs import Run


def report(
    run: RunName = "last",
    out: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Where to.  [default: report-RUN.html]")
    ] = None,
    store: StoreFolder = DEFAULT_STORE,
    json: Json = False,
) -> None:
    """Write a run into one HTML file that opens from disk, without a network: front, curves, lineage, drawings."""
    from evodevo.runs import Archive

    with Archive(store) as archive:
        found = archive.run(run)
        path = write_report(found, out or Path(f"report-{found.id}.html"))
    if json:
        output.document("evodevo.report/1", {"run": found.id, "file": str(path)})
    else:
        output.line(str(path))


def write_report(run: Run, path: Path) -> Path:
    """Write it; gives the absolute path."""
    from evodevo.runs.reporting import report as build

    write_text(path, build(run))
    return path.absolute()

"""``evodevo report``: write one self-contained HTML file about a run or a multitask system."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evodevo import canonical
from evodevo.cli import output
from evodevo.cli.files import write_text
from evodevo.cli.options import DEFAULT_STORE, Json, StoreFolder

if TYPE_CHECKING:
    from evodevo.runs.archive import Run


def report(
    run: Annotated[
        str,
        typer.Argument(
            metavar="RUN|SYSTEM", help="Any unique beginning of a run's id, or last; or a multitask system."
        ),
    ] = "last",
    out: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="File of the report.  [default: report-NAME.html]"),
    ] = None,
    store: StoreFolder = DEFAULT_STORE,
    json: Json = False,
) -> None:
    """Write a run into one HTML file that opens from disk, without a connection: front, curves, lineage, drawings.

    For a system: its graph over time, the best agents, shared components, its course, and the outcome of every child.
    """
    from evodevo.multitask.report.gather import run_or_system, system_report
    from evodevo.runs.archive import Archive, Run

    with Archive(store) as archive:
        subject = run_or_system(archive, run)
        if isinstance(subject, Run):
            about, path = {"run": subject.id}, write_report(subject, out or Path(f"report-{subject.id}.html"))
        else:
            about, path = {"system": subject.name}, (out or Path(f"report-{subject.name}.html")).absolute()
            write_text(path, system_report(archive, subject))
    if json:
        output.document("evodevo.report/1", {**about, "file": str(path)})
    else:
        output.line(str(path))


def write_report(run: Run, path: Path) -> Path:
    """Write the report, and its results as JSON beside it where the slice keeps such; return its absolute path."""
    write_text(path, run.slice.report(run))
    data = run.slice.data(run)
    if data is not None:
        write_text(path.with_suffix(".json"), canonical.dumps(data) + "\n")
    return path.absolute()

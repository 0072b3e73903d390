"""Runs that consist of other runs on the command line: what one will need, its stages, its tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from evodevo.cli import output
from evodevo.runs.search_progress import duration

if TYPE_CHECKING:
    from evodevo.runs.archive import Run


def show_composed(run: Run) -> None:
    """Print the stages, the tables and what they show, as far as the run has come."""
    results = run.slice.results(run)
    for place, table in enumerate(each for each in results.tables if each.rows):
        if place:
            output.line()
        output.table(table.columns, table.rows, right=table.right)
    for sentence in results.sentences:
        output.line(f"\n{sentence}")
    if results.note:
        output.words(results.note)


def show_needs(needs: dict[str, Any]) -> None:
    """Print what a run will need."""
    from evodevo.report.charts.numbers import show

    def hours(value: float) -> str:
        return duration(3600 * value)

    rows = [
        (s["stage"], s["trainings"], show(s["tokens"], "tokens"), show(s["flops"], "flops", 3), hours(s["hours"]))
        for s in needs["stages"]
    ]
    names = ("stage", "evaluations", "tokens each", "FLOPs", "time")
    output.table(names, rows, right=names[1:])
    free = "unknown" if needs["memory_left"] is None else show(needs["memory_left"], "bytes", 3)
    speed = "as fast as they are now" if needs["calibrated"] else "at published peaks"
    output.line()
    for name, value in (
        ("evaluations", f"{needs['trainings']:,}"),
        ("training tokens", show(needs["tokens"], "tokens")),
        ("FLOPs", show(needs["flops"], "flops", 3)),
        ("memory", f"{show(needs['memory_bytes'], 'bytes', 3)} at most, {free} free"),
        ("disk", f"{show(needs['disk_bytes'], 'bytes', 3)} at most, {show(needs['disk_left'], 'bytes', 3)} free"),
        ("time", f"{hours(needs['hours'])} with {needs['workers']} workers, {speed}"),
    ):
        output.line(f"{name:<16} {value}")
    for warning in needs["warnings"]:
        output.words(f"note: {warning}")

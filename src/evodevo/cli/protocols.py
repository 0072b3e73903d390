"""Protocols on the command line: what one will need, its table, its stages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from evodevo.cli import output
from evodevo.runs.search_progress import duration

if TYPE_CHECKING:
    from evodevo.runs.archive import Run

KIND = "protocol"


def searched(run: Run) -> Run:
    """The run that holds the individuals: the search of a protocol; any other run itself.

    Raises:
        NotFoundError: the protocol has not begun its search.
    """
    if run.kind != KIND:
        return run
    from evodevo.backbone.protocol.record import stage_runs
    from evodevo.errors import NotFoundError

    stages = stage_runs(run)
    if "search" not in stages:
        raise NotFoundError(f"the protocol {run.id} has not begun its search. See: evodevo show {run.id}")
    return stages["search"]


def show_protocol(run: Run) -> None:
    """Print the stages, the table and what it shows, as far as the protocol has come."""
    from evodevo.backbone.protocol.record import read_protocol
    from evodevo.backbone.protocol.text import cells, headings, stage_words
    from evodevo.runs.verdict import DOMINATES

    record = read_protocol(run)
    stages = [(name, stage["run"], stage["state"], stage_words(name)) for name, stage in record.stages.items()]
    output.table(("stage", "run", "state", "what it does"), stages)
    if record.rows:
        output.line()
        columns = headings(record.rows, run.settings.evaluation.cost_length)
        output.table(columns, cells(record.rows), right=columns[1:-1])
    for sentence in record.sentences:
        output.line(f"\n{sentence}")
    if any(row.test is not None for row in record.rows):
        output.words(DOMINATES)


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
    output.line()
    for name, value in (
        ("evaluations", f"{needs['trainings']:,}"),
        ("training tokens", show(needs["tokens"], "tokens")),
        ("FLOPs", show(needs["flops"], "flops", 3)),
        ("memory", f"{show(needs['memory_bytes'], 'bytes', 3)} at most, {free} free"),
        ("disk", f"{show(needs['disk_bytes'], 'bytes', 3)} at most, {show(needs['disk_left'], 'bytes', 3)} free"),
        ("time", f"{hours(needs['hours'])} with {needs['workers']} workers, as fast as they are now"),
    ):
        output.line(f"{name:<16} {value}")
    for warning in needs["warnings"]:
        output.words(f"note: {warning}")

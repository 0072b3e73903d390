"""The end of an experiment on one screen: one table and one verdict. All else is in ``show`` and in the report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evodevo.cli import output
from evodevo.cli.comparing import percent, signed
from evodevo.runs.search_progress import duration

if TYPE_CHECKING:
    from evodevo.experiments.comparison import ComparisonRow, Spread
    from evodevo.runs.archive import Run

COSTS = ("parameters", "FLOPs", "training")


def show_end(run: Run) -> None:
    """Print the table, best on test first, the verdict, and what is missing."""
    from evodevo.experiments.comparison import compare_arms
    from evodevo.experiments.remarks import decisions
    from evodevo.experiments.verdict import best_first, verdict

    table = compare_arms(run)
    if run.settings.experiment.title:
        output.line(run.settings.experiment.title)
    rows = [*best_first(table), *(row for row in table.rows if row.test is None)]
    apart = any(row.difference is not None for row in rows)
    headings = ("arm", "seeds", "validation", "test", *([f"minus {table.reference}"] if apart else []), *COSTS)
    output.table(headings, [_cells(row, with_difference=apart) for row in rows], right=headings[1:])
    if sentence := verdict(table):
        output.line(sentence)
    for caveat in run.settings.experiment.caveats:
        output.words(f"note: {caveat}")
    for row in rows:
        for remark in decisions([one.fact for one in row.trainings]):
            output.words(f"{row.group}: {remark}")
        for reason in row.missing:
            output.words(f"missing: {reason}")


def _cells(row: ComparisonRow, *, with_difference: bool) -> tuple[object, ...]:
    from evodevo.report.charts.numbers import show

    def amount(spread: Spread | None, unit: str) -> str:
        return "–" if spread is None else show(spread.mean, unit)

    gap = row.difference
    difference = "" if gap is None else f"{signed(gap.mean)} ({signed(gap.low)} to {signed(gap.high)})"
    return (
        row.group,
        len(row.trainings),
        percent(row.validation),
        percent(row.test),
        *([difference] if with_difference else []),
        amount(row.parameters, "parameters"),
        amount(row.executed_flops, "flops"),
        duration(None if row.training_seconds is None else row.training_seconds.mean),
    )

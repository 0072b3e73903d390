"""The result of an experiment in a sentence: who is best on test, by how much, and what needs no network."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from evodevo.experiments.comparison import reference_of

if TYPE_CHECKING:
    from evodevo.experiments.comparison import ComparisonRow, ComparisonTable, Spread
    from evodevo.experiments.paired import Difference


def verdict(table: ComparisonTable) -> str:
    """The sentence; empty where no training has ended with a test accuracy."""
    rows = best_first(table)
    if not rows:
        return ""
    return "; ".join(_parts(table, rows)) + "."


def best_first(table: ComparisonTable) -> list[ComparisonRow]:
    """The rows with a test accuracy, in its order."""
    judged = [row for row in table.rows if row.test is not None]
    return sorted(judged, key=lambda row: -_mean(row.test))


def _parts(table: ComparisonTable, rows: list[ComparisonRow]) -> Iterator[str]:
    best, others = rows[0], rows[1:]
    # Each row has its difference to the reference of its own cell.
    own = reference_of(best, table.rows, table.reference)
    near = next((row for row in others if reference_of(row, table.rows, table.reference) is best), None)
    seeds = len(best.trainings)
    over = f" over {seeds} seeds" if seeds > 1 else " with one seed, which tells little"
    rank = f"best of {len(rows)} on test: " if others else ""
    yield f"{rank}{best.group}, {100 * _mean(best.test):.1f} %{over}"
    if best.difference is not None and own is not None:
        yield f"{_gap(best.difference.mean)} points above {own.group} ({_apart(best.difference)})"
    elif near is not None and near.difference is not None:
        gap = near.difference
        yield f"the next, {near.group}, is {_gap(gap.mean)} points from it ({_apart(gap)})"
    known = {name: value for name, value in table.baselines.get("test", {}).items() if value is not None}
    if known and all(0 <= value <= 1 for value in known.values()):  # those of language models are bits per byte
        name = max(known, key=lambda key: known[key])
        yield f"without a network {100 * known[name]:.1f} % ({name})"


def _mean(spread: Spread | None) -> float:
    return float("-inf") if spread is None else spread.mean


def _gap(share: float) -> str:
    return f"{100 * share:+.1f}"


def _apart(difference: Difference) -> str:
    interval = f"{_gap(difference.low)} to {_gap(difference.high)}"
    return f"{interval}, not apart" if difference.low <= 0 <= difference.high else interval

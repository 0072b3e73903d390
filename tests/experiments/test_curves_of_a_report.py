"""Charts of the course of trainings: terms of a loss that would lie on the axis are named, not drawn."""

from __future__ import annotations

from evodevo.experiments.comparison import ComparisonRow, ComparisonTable
from evodevo.experiments.report.tables import curves


def charts_of(terms: dict[str, list[tuple[float, float]]]) -> list[tuple[list[str], str]]:
    lines = {f"loss/{name}": points for name, points in terms.items()}
    row = ComparisonRow(
        name="zoo", role="zoo", cell={}, learning_rate=1e-3, rates={}, trainings=(), missing=(), curves=lines
    )
    table = ComparisonTable(rows=(row,), budgets={}, baselines={}, facts={})
    return [([series.name for series in chart.series], chart.caption) for chart in curves(table)]


def test_small_terms_are_named_and_not_drawn() -> None:
    terms = {
        "task": [(0.0, 2.0), (9.0, 0.5)],
        "load": [(0.0, 0.001), (9.0, -0.019)],
        "align": [(0.0, 0.0), (9.0, 0.02)],
    }
    ((names, caption),) = charts_of(terms)
    assert names == ["task", "align"], "0.02 is 1 % of 2"
    assert caption == "Terms of the loss of zoo. Below 1 % of the largest, and left out: load."


def test_where_all_terms_are_of_one_size_all_are_drawn() -> None:
    ((names, caption),) = charts_of({"task": [(0.0, 1.0)], "load": [(0.0, -0.9)]})
    assert (names, caption) == (["task", "load"], "Terms of the loss of zoo.")
    ((names, _),) = charts_of({"task": [(0.0, 0.0)], "load": [(0.0, 0.0)]})
    assert names == ["task", "load"]

"""The result of an experiment in a sentence."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from evodevo.experiments.comparison import ComparisonTable, Spread
from evodevo.experiments.paired import Difference
from evodevo.experiments.verdict import best_first, verdict


def row(
    name: str, test: float | None, gap: tuple[float, float, float] | None = None, seeds: int = 5, cell: str = ""
) -> Any:
    difference = None if gap is None else Difference(*gap, seeds=seeds, samples=1000)
    spread = None if test is None else Spread.of([test] * seeds)
    group = f"{name}, {cell}" if cell else name
    return SimpleNamespace(
        name=name, group=group, test=spread, difference=difference, trainings=(None,) * seeds, cell={"start": cell}
    )


def table(*rows: Any, **baselines: float) -> ComparisonTable:
    known = {"validation": {}, "test": dict(baselines)}
    return cast("ComparisonTable", SimpleNamespace(rows=rows, reference="fixed", baselines=known))


def test_the_best_against_the_reference() -> None:
    rows = (row("fixed", 0.70), row("raced", 0.78, (0.08, 0.06, 0.1)), row("gone", None))
    said = verdict(table(*rows, majority=0.5))
    assert said == (
        "best of 2 on test: raced, 78.0 % over 5 seeds; +8.0 points above fixed (+6.0 to +10.0); "
        "without a network 50.0 % (majority)."
    )


def test_the_reference_is_best() -> None:
    known = {"majority": 0.5, "logistic regression": 0.81}
    said = verdict(table(row("raced", 0.7, (-0.01, -0.03, 0.01), 1), row("fixed", 0.71, seeds=1), **known))
    assert said == (
        "best of 2 on test: fixed, 71.0 % with one seed, which tells little; the next, raced, is -1.0 points from it "
        "(-3.0 to +1.0, not apart); without a network 81.0 % (logistic regression)."
    )


def test_no_difference_is_taken_across_cells() -> None:
    rows = (
        row("fixed", 0.6, cell="large"),
        row("grown", 0.7, (0.1, 0.08, 0.12), cell="large"),
        row("fixed", 0.8, cell="small"),
        row("grown", 0.65, (-0.15, -0.2, -0.1), cell="small"),
    )
    assert "the next, grown, small, is -15.0 points from it (-20.0 to -10.0)" in verdict(table(*rows))
    assert "points" not in verdict(table(*rows[:3])), "the small one that is best has no rival in its cell"
    assert "+10.0 points above fixed, large" in verdict(table(*rows[:2]))


def test_bits_per_byte_are_no_shares() -> None:
    assert "without" not in verdict(table(row("fixed", 0.5), unigram=4.6, bigram=0.9))


@pytest.mark.parametrize("rows", [(), (row("fixed", None),)])
def test_nothing_has_ended(rows: tuple[Any, ...]) -> None:
    assert verdict(table(*rows)) == ""
    assert best_first(table(*rows)) == []

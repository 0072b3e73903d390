"""The winner on an experiment's page: chosen on validation, never on test, and none at a tie."""

from __future__ import annotations

from evodevo.experiments.comparison import ComparisonRow, ComparisonTable, Spread
from evodevo.experiments.report.page import best_card


def card(**rows: tuple[float | None, float | None]) -> list[tuple[str, str]]:
    """The card of arms with these (validation, test)."""
    made = tuple(
        ComparisonRow(name, "network", {}, 1e-3, {}, (), (), validation=Spread.of([validation]), test=Spread.of([test]))
        for name, (validation, test) in rows.items()
    )
    return best_card(ComparisonTable(made, {}, {}, {}))


def test_validation_chooses_and_test_is_shown() -> None:
    found = card(lucky=(0.70, 0.95), good=(0.80, 0.75), unfinished=(None, None))
    assert found == [("75.0 %", "on test: good, the best on validation")]


def test_a_tie_has_no_winner() -> None:
    found = card(one=(0.8, 0.9), two=(0.8, 0.7), three=(0.5, 0.99))
    assert found == [("80.0 %", "on validation, a tie of 2 arms: one, two")]
    assert "…" in card(**dict.fromkeys("abcdef", (0.5, 0.5)))[0][1]


def test_without_a_test_score_none_is_named() -> None:
    assert card(one=(0.8, None), two=(0.7, 0.99)) == [("80.0 %", "on validation: one, the best there")]
    assert card(one=(None, None)) == []

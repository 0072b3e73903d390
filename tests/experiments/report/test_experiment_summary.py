"""What stands first on the page of an experiment."""

from __future__ import annotations

from evodevo.backbone.report.evolution_data import RunFacts
from evodevo.experiments.report.model import ExperimentReport, Words
from evodevo.experiments.report.page import experiment_report


def page(count: int) -> str:
    notes = [f"remark number {number}." for number in range(count)]
    return experiment_report(
        ExperimentReport(
            title="t", run=RunFacts("r"), cards=[("1", "arm")], arms=Words(("arm",), [("a",)]), notes=notes
        )
    )


def test_few_remarks_are_read_at_once() -> None:
    assert "more remark" not in page(6)


def test_many_are_folded_and_none_is_lost() -> None:
    found = page(9)
    before, _, folded = found.partition("3 more remarks")
    assert "remark number 5." in before
    assert all(f"remark number {number}." in folded for number in (6, 7, 8))

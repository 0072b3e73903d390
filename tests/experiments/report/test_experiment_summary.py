"""What stands first on the page of an experiment."""

from __future__ import annotations

from xml.etree import ElementTree

from evodevo.experiments.report.page import summary_section


def summary(count: int) -> str:
    sentences = [f"remark number {number}." for number in range(count)]
    return ElementTree.tostring(summary_section([("1", "arm")], sentences, ""), encoding="unicode")


def test_few_remarks_are_read_at_once() -> None:
    assert "more remark" not in summary(6)


def test_many_are_folded_and_none_is_lost() -> None:
    found = summary(9)
    before, _, folded = found.partition("3 more remarks")
    assert "remark number 5." in before
    assert all(f"remark number {number}." in folded for number in (6, 7, 8))

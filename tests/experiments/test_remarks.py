"""Facts of trainings in words, and where they stand on the page."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

from evodevo.experiments.remarks import remarks
from evodevo.experiments.report.page import summary_section

SELECTED: dict[str, Any] = {"stage": 0, "metric": "accuracy", "best": 0.9, "step": 40, "stopped": None, "instead": ""}


def test_nothing_special_needs_no_words() -> None:
    assert remarks([{"steps": 3, "selection": [], "test": {"reasons": {}}}, {}]) == ()


def test_a_search_says_what_it_tried_and_chose_and_whether_it_collapsed() -> None:
    one = {"search": {"tried": 4, "steps": 80, "chosen": ["mlp-1", "mlp-2"], "collapsed": "one kind: mlp"}}
    other = {"search": {"tried": 4, "steps": 80, "chosen": ["mlp-1", "lstm-1"], "collapsed": ""}}
    assert remarks([one, other]) == (
        "its search tried 4 networks in 80 steps; it chose mlp-1, mlp-2 (1 of 2); mlp-1, lstm-1 (1 of 2)",
        "its search collapsed in 1 of 2 trainings (one kind: mlp)",
    )
    assert remarks([{"search": {"tried": 1, "steps": 9}}]) == ("its search tried 1 network in 9 steps",)


def test_a_selection_says_where_it_stopped_and_what_it_compared() -> None:
    instead = "auc is not defined (answer: the split has one class)"
    stopped = {**SELECTED, "step": 20, "stopped": 60, "instead": instead}
    assert remarks([{"selection": [SELECTED]}, {"selection": [SELECTED, stopped]}]) == (
        "its weights are those of step 20, 40, the best by validation accuracy",
        "stopped early in 1 of 2 trainings, at step 60",
        instead,
    )


def test_missing_metrics_say_why_once() -> None:
    reasons = {"reasons": {"answer": {"auc": "the split has one class", "precision_macro": "never answered"}}}
    assert remarks([{"test": reasons}] * 2) == ("test auc of answer: the split has one class",)


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

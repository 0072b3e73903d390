"""Facts of trainings in words."""

from __future__ import annotations

from typing import Any

from evodevo.experiments.remarks import remarks

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

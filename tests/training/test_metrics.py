"""Metrics equal scikit-learn's where it defines them, and say why where nothing is defined."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from numpy.typing import NDArray
from sklearn import metrics as reference

from evodevo.objectives.calibration_error import BINS, reliability
from evodevo.objectives.probabilities import sigmoid, softmax
from evodevo.training.metrics import Judgement, auc, best_threshold, judge

SCORES = st.floats(-20, 20).map(lambda value: round(value, 1))  # rounded, so that there are ties
SEEDS = st.integers(0, 2**32 - 1)


def drawn(seed: int, rows: int, classes: int) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Logits, classes, labels."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(rows, classes)) * rng.choice([0.3, 3.0])
    return logits, rng.integers(0, classes, rows), rng.integers(0, 2, (rows, classes)).astype(float)


def same(found: float, wanted: float) -> bool:
    return (math.isnan(found) and math.isnan(wanted)) or found == pytest.approx(wanted, abs=1e-9)


@settings(max_examples=10, deadline=None)
@given(seed=SEEDS, rows=st.integers(2, 20))
def test_a_binary_output_is_judged_as_by_scikit_learn(seed: int, rows: int) -> None:
    logits, wanted, _ = drawn(seed, rows, 2)
    found = judge("class", logits, wanted).metrics
    probability, chosen = softmax(logits)[:, 1], logits.argmax(1)
    assert same(found["accuracy"], reference.accuracy_score(wanted, chosen))
    assert same(found["log_loss"], reference.log_loss(wanted, softmax(logits), labels=[0, 1]))
    for name, score in _SCORES.items():
        assert same(found[name], score(wanted, chosen, zero_division=np.nan))
        assert same(found[f"{name}_macro"], score(wanted, chosen, average="macro", zero_division=np.nan))
    if len(set(wanted)) == 2:
        assert same(found["auc"], reference.roc_auc_score(wanted, probability))
    else:
        assert math.isnan(found["auc"])


@settings(max_examples=10, deadline=None)
@given(seed=SEEDS, rows=st.integers(3, 40), classes=st.integers(3, 5))
def test_several_classes_are_judged_as_by_scikit_learn(seed: int, rows: int, classes: int) -> None:
    logits, wanted, _ = drawn(seed, rows, classes)
    found = judge("class", logits, wanted).metrics
    chosen = logits.argmax(1)
    assert same(found["accuracy"], reference.accuracy_score(wanted, chosen))
    assert same(found["log_loss"], reference.log_loss(wanted, softmax(logits), labels=list(range(classes))))
    for name, score in _SCORES.items():
        assert same(found[f"{name}_macro"], score(wanted, chosen, average="macro", zero_division=np.nan))
    there = sorted(set(wanted))
    assert found["auc_skipped"] == classes - (len(there) if len(there) > 1 else 0)
    if len(there) == classes:
        wide = reference.roc_auc_score(wanted, softmax(logits), multi_class="ovr", average="macro")
        assert same(found["auc"], wide)


@settings(max_examples=10, deadline=None)
@given(seed=SEEDS, rows=st.integers(2, 40), classes=st.integers(1, 4))
def test_labels_are_judged_as_by_scikit_learn(seed: int, rows: int, classes: int) -> None:
    logits, _, wanted = drawn(seed, rows, classes)
    found = judge("labels", logits, wanted).metrics
    chosen = logits > 0
    assert same(found["exact"], (chosen == wanted).all(1).mean())
    assert same(found["label_accuracy"], (chosen == wanted).mean())
    for name, score in _SCORES.items():
        each = [score(wanted[:, one], chosen[:, one], zero_division=np.nan) for one in range(classes)]
        known = [value for value in each if not math.isnan(value)]
        assert same(found[f"{name}_macro"], np.mean(known) if known else math.nan)
    both = [one for one in range(classes) if 0 < wanted[:, one].sum() < rows]
    assert found["auc_skipped"] == classes - len(both)
    areas = [reference.roc_auc_score(wanted[:, one], logits[:, one]) for one in both]
    assert same(found["auc"], np.mean(areas) if areas else math.nan)
    probability = sigmoid(logits)
    entries = -(wanted * np.log(probability) + (1 - wanted) * np.log1p(-probability))
    assert same(found["log_loss"], entries.mean())


_SCORES: dict[str, Any] = {
    "f1": reference.f1_score,
    "precision": reference.precision_score,
    "recall": reference.recall_score,
}


@settings(max_examples=40, deadline=None)
@given(scores=st.lists(SCORES, min_size=2, max_size=30), data=st.data())
def test_the_area_counts_pairs(scores: list[float], data: st.DataObject) -> None:
    positive = data.draw(arrays.arrays(bool, len(scores)))
    values = np.asarray(scores)
    pairs = [
        1.0 if values[a] > values[b] else 0.5 if values[a] == values[b] else 0.0
        for a in np.flatnonzero(positive)
        for b in np.flatnonzero(~positive)
    ]
    assert same(auc(values, positive), float(np.mean(pairs)) if pairs else math.nan)
    assert same(auc(values, positive), 1 - auc(-values, positive))


@settings(max_examples=15, deadline=None)
@given(data=st.data(), rows=st.integers(1, 12))
def test_no_threshold_is_better_than_the_tuned_one(data: st.DataObject, rows: int) -> None:
    choices = st.one_of(st.floats(0, 1), st.sampled_from([0.0, 0.25, 0.5, 1.0, np.nextafter(0.5, 1)]))
    probability = np.asarray(data.draw(st.lists(choices, min_size=rows, max_size=rows)))
    positive = data.draw(arrays.arrays(bool, rows))
    found = best_threshold(probability, positive)
    assert 0 <= found < 1

    def f1(threshold: float) -> float:
        return float(reference.f1_score(positive, probability > threshold, zero_division=0.0))

    assert f1(found) == pytest.approx(max(f1(one) for one in {0.0, 0.5, *probability}))
    if f1(0.5) == pytest.approx(f1(found)):
        assert found == 0.5, "where nothing is gained, the threshold stays where it was"


def test_thresholds_of_other_samples_are_used() -> None:
    logits = np.asarray([[0.0, -3.0], [0.0, -1.0], [0.0, 1.0], [0.0, -2.0]])
    wanted = np.asarray([0, 1, 1, 0])
    found = judge("class", logits, wanted)
    assert (found.metrics["f1"], found.metrics["accuracy"]) == (pytest.approx(2 / 3), 0.75)
    (threshold,) = found.thresholds
    assert sigmoid(np.asarray(-2.0)) <= threshold < sigmoid(np.asarray(-1.0))
    tuned = judge("class", logits, wanted, found.thresholds).metrics
    assert (tuned["f1_tuned"], tuned["accuracy_tuned"], tuned["precision_tuned"]) == (1.0, 1.0, 1.0)
    assert not any(name.endswith("_tuned") for name in found.metrics), "never on the samples that tuned them"
    marks = judge("labels", logits, np.asarray([[0.0, 0], [1, 1], [0, 1], [1, 0]]), (0.5, threshold)).metrics
    assert marks["exact_tuned"] == 0.5, "the first label is never answered"
    assert marks["label_accuracy_tuned"] == 0.75


def test_calibration_by_hand() -> None:
    confidence = np.asarray([0.91, 0.95, 0.99, 0.61, 0.65])
    right = np.asarray([1, 1, 0, 1, 0])
    curve = reliability(confidence, right, bins=10)
    assert curve.count == (2, 3)
    assert curve.confidence == pytest.approx((0.63, 0.95))
    assert curve.accuracy == pytest.approx((0.5, 2 / 3))
    assert curve.error == pytest.approx((2 * 0.13 + 3 * (0.95 - 2 / 3)) / 5)
    assert math.isnan(reliability(np.zeros(0), np.zeros(0)).error)
    assert reliability(np.asarray([0.0, 1.0]), np.asarray([0, 1])).error == 0
    # Two logits that are equal: a confidence of one half, in the bin that ends beyond it.
    even = judge("class", np.zeros((4, 2)), np.asarray([0, 0, 0, 1]))
    assert even.metrics["calibration_error"] == pytest.approx(0.25)
    assert even.reliability.to_json() == {"confidence": [0.5], "accuracy": [0.75], "count": [4.0]}


@settings(max_examples=8, deadline=None)
@given(seed=SEEDS)
def test_who_is_as_right_as_it_says_has_no_calibration_error(seed: int) -> None:
    rng = np.random.default_rng(seed)
    confidence = rng.uniform(size=40_000)
    assert reliability(confidence, rng.uniform(size=40_000) < confidence).error < 0.02
    assert sum(reliability(confidence, confidence > 2).count) == 40_000
    assert len(reliability(confidence, confidence > 2).count) == BINS


ONE_CLASS = np.zeros(5, dtype=np.int64)


@pytest.mark.parametrize(
    ("found", "metric", "reason"),
    [
        (judge("class", np.ones((5, 2)), ONE_CLASS), "auc", "the split has one class"),
        (judge("class", np.ones((5, 3)), ONE_CLASS), "auc", "the split has one class"),
        (judge("class", np.eye(2)[[0] * 5], ONE_CLASS), "f1", "neither there nor answered"),
        (judge("class", np.eye(2)[[0] * 5], ONE_CLASS), "precision", "never answered"),
        (judge("class", np.eye(2)[[0] * 5], ONE_CLASS), "recall", "not in the split"),
        (judge("labels", np.ones((5, 2)), np.ones((5, 2))), "auc", "no label has both answers in the split"),
        (judge("class", np.ones((5, 2)), ONE_CLASS - 1), "accuracy", "no sample has a target"),
        (judge("labels", np.ones((5, 2)), np.full((5, 2), np.nan)), "f1_macro", "no sample has a target"),
        (judge("class", np.full((5, 2), np.nan), ONE_CLASS), "log_loss", "an answer is not a finite number"),
        (judge("class", np.zeros((0, 2)), ONE_CLASS[:0]), "auc", "no sample has a target"),
    ],
)
def test_what_is_not_defined_says_why(found: Judgement, metric: str, reason: str) -> None:
    assert math.isnan(found.metrics[metric])
    assert found.reasons[metric] == reason
    unknown = {name for name, value in found.metrics.items() if math.isnan(value)}
    assert unknown <= set(found.reasons), "every NaN says why"


def test_what_a_mean_leaves_out_is_said() -> None:
    found = judge("class", np.eye(3)[[0, 1, 0]], np.asarray([0, 1, 1]))
    assert found.metrics["auc"] == pytest.approx(0.75)
    assert found.reasons["auc"] == "left out 1 of 3: one answer in the split"
    assert found.reasons["f1_macro"] == "left out 1 of 3: neither there nor answered"


def test_what_has_no_target_counts_nowhere() -> None:
    logits, wanted, marks = drawn(1, 30, 3)
    holes = wanted.copy()
    holes[::2] = -1
    assert judge("class", logits, holes) == judge("class", logits[1::2], wanted[1::2])
    empty = marks.copy()
    empty[::2] = np.nan
    assert judge("labels", logits, empty) == judge("labels", logits[1::2], marks[1::2])
    # A label without a target makes no sample wrong.
    logits = np.asarray([[3.0, -3.0], [3.0, 3.0], [-3.0, 3.0]])
    partly = np.asarray([[1.0, np.nan], [1.0, 1.0], [np.nan, 0.0]])
    assert judge("labels", logits, partly).metrics["exact"] == pytest.approx(2 / 3)


@pytest.mark.parametrize("scale", [1e3, 1e300])
def test_huge_logits_neither_warn_nor_overflow(scale: float) -> None:
    logits = scale * np.asarray([[1.0, -1.0], [-1.0, 1.0], [1.0, 0.5]])
    for found in (judge("class", logits, np.asarray([0, 1, 1])), judge("labels", logits, np.eye(2)[[0, 1, 1]])):
        assert 0.5 < found.metrics["auc"] <= 1
        assert math.isfinite(found.metrics["log_loss"])
        assert 0 <= found.metrics["calibration_error"] <= 1


def test_the_tuned_threshold_lies_between_neighbouring_floats() -> None:
    lower = 0.7
    for _ in range(4):  # a middle is rounded up or down
        upper = float(np.nextafter(lower, 1))
        found = best_threshold(np.asarray([lower, upper]), np.asarray([False, True]))
        assert lower <= found < upper
        lower = upper
    tied = best_threshold(np.asarray([0.9, 0.8, 0.7, 0.4]), np.asarray([True, False, False, True]))
    assert tied == pytest.approx(0.2), "of equally good ones the nearest to one half"

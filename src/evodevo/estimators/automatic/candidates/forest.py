"""Forests: extremely randomised trees, and trees of resampled samples, by scikit-learn.

Legend: n samples, C classes or labels, 1 of a quantity.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evodevo.estimators.automatic.candidates.base import FitCandidate, LabelledSamples, Limit, ProbabilityModel
from evodevo.estimators.automatic.candidates.trees import LEAF, Forest, TreesPredictor
from evodevo.estimators.automatic.features.dense import DenseFeatures

TREES = 200
MOST_NODES = 20_000_000
"""Largest number of values in all leaves; larger forests get fewer trees."""


class ExtraTrees(FitCandidate):
    """The mean of many trees with random thresholds."""

    name = "extremely randomised trees"

    def _unfitted(self, quantity: bool, count: int, **settings: Any) -> Any:
        from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor

        return (ExtraTreesRegressor if quantity else ExtraTreesClassifier)(count, **settings)

    def train(
        self, lesson: LabelledSamples, rows: NDArray[np.int64], held: NDArray[np.int64], limit: Limit
    ) -> ProbabilityModel:
        shown, answers = lesson.samples.take(rows), lesson.answers[rows]
        features, components = DenseFeatures.of(shown, lesson.levels, lesson.seed)
        table = features.read(shown, components)
        # A missing number is below all others, so that one question tells it apart.
        there = np.where(np.isnan(table), np.inf, table).min(0, initial=np.inf)
        fill = np.where(np.isfinite(there), there - 1 - np.abs(there), 0.0)
        count = max(10, min(TREES, MOST_NODES // max(1, 2 * len(rows) * lesson.classes)))
        model = self._unfitted(
            lesson.kind == "quantity",
            count,
            min_samples_leaf=1 if len(rows) < 10_000 else 3,
            random_state=lesson.seed % 2**32,
            n_jobs=1,
        ).fit(np.where(np.isnan(table), fill, table), answers)
        forest = _arrays(model, lesson)
        return TreesPredictor(features, components, forest, np.zeros(lesson.classes), fill, "mean")

    def retrain(
        self, lesson: LabelledSamples, rows: NDArray[np.int64], trained: Sequence[ProbabilityModel], limit: Limit
    ) -> ProbabilityModel:
        return self.train(lesson, rows, rows, limit)


class RandomForest(ExtraTrees):
    """The mean of many trees, each of samples that are drawn with replacement (Breiman 2001)."""

    name = "random forest"

    def _unfitted(self, quantity: bool, count: int, **settings: Any) -> Any:
        from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

        if quantity:  # a third of the features, as Breiman has it; scikit-learn's all of them take three times as long
            return RandomForestRegressor(count, max_features=1 / 3, **settings)
        return RandomForestClassifier(count, **settings)


def _arrays(model: Any, lesson: LabelledSamples) -> Forest:
    parts: dict[str, list[NDArray[Any]]] = {name: [] for name in (*Forest.NAMES, "value")}
    begin = 0
    for estimator in model.estimators_:
        tree = estimator.tree_
        leaf = tree.children_left == -1
        columns = {
            "roots": np.asarray([begin]),
            "target": np.asarray([-1]),
            "feature": np.where(leaf, LEAF, tree.feature),
            "threshold": np.where(leaf, 0.0, tree.threshold),
            "left": np.where(leaf, 0, tree.children_left + begin),
            "right": np.where(leaf, 0, tree.children_right + begin),
            "missing_left": np.zeros(tree.node_count, np.uint8),
            "value": _values(tree.value, model, lesson),
        }
        for name, column in columns.items():
            parts[name].append(column)
        begin += tree.node_count
    return Forest(**{name: np.concatenate(columns) for name, columns in parts.items()})


def _values(values: NDArray[np.float64], model: Any, lesson: LabelledSamples) -> NDArray[np.float64]:
    """Probabilities in each node, (nodes, C): fractions of its training samples; or their mean value, (nodes, 1)."""
    if lesson.kind == "quantity":
        return values[:, :, 0]
    shares = values / np.maximum(values.sum(2, keepdims=True), 1e-300)
    result = np.zeros((len(values), lesson.classes))
    classes = model.classes_ if lesson.kind == "labels" else [model.classes_]
    for place, own in enumerate(classes):
        numbers = np.asarray(own, np.int64)
        if lesson.kind == "class":
            result[:, numbers] = shares[:, 0, : len(numbers)]
        else:
            result[:, place] = shares[:, place, : len(numbers)][:, numbers == 1].sum(1)
    return result

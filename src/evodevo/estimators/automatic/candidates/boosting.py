"""Gradient boosting of trees on numbers, categories, and short forms of texts and images, by scikit-learn.

Legend: n samples, C classes or labels, O outputs; both are 1 of a quantity.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evodevo.estimators.automatic.candidates.base import FitCandidate, LabelledSamples, Limit, ProbabilityModel
from evodevo.estimators.automatic.candidates.threads import threads
from evodevo.estimators.automatic.candidates.trees import LEAF, Forest, TreesPredictor
from evodevo.estimators.automatic.features.dense import DenseFeatures

CHUNK = 10
"""Largest number of iterations between two looks at the held out samples and at the clock; the first are fewer."""
FAR = 30.0
"""Size of an output that leaves no doubt."""
MOST_ITERATIONS = 600
PATIENCE = 40
"""Iterations without a lower loss of the held out samples after which the training ends."""


class Boosting(FitCandidate):
    """Boosted trees; the held out samples decide their number.

    Args:
        name: Name in the leaderboard.
        rate: Learning rate.
        leaves: Largest number of leaves of a tree.
        fewest: Smallest number of samples in a leaf.
        penalty: Quadratic penalty of leaves.
    """

    def __init__(self, name: str, *, rate: float, leaves: int, fewest: int, penalty: float) -> None:
        self.name = name
        self.rate, self.leaves, self.fewest, self.penalty = rate, leaves, fewest, penalty

    def train(
        self, lesson: LabelledSamples, rows: NDArray[np.int64], held: NDArray[np.int64], limit: Limit
    ) -> ProbabilityModel:
        return self._trained(lesson, rows, held, limit, MOST_ITERATIONS)

    def retrain(
        self, lesson: LabelledSamples, rows: NDArray[np.int64], trained: Sequence[ProbabilityModel], limit: Limit
    ) -> ProbabilityModel:
        counts = [len(one.forest.roots) for one in trained if isinstance(one, TreesPredictor)]
        outputs = 1 if lesson.link == "two" else lesson.classes
        iterations = max(1, round(float(np.mean(counts)) / outputs))
        return self._trained(lesson, rows, None, limit, iterations)

    def _trained(
        self,
        lesson: LabelledSamples,
        rows: NDArray[np.int64],
        held: NDArray[np.int64] | None,
        limit: Limit,
        iterations: int,
    ) -> ProbabilityModel:
        shown, answers = lesson.samples.take(rows), lesson.answers[rows]
        features, components = DenseFeatures.of(shown, lesson.levels, lesson.seed)
        table = features.read(shown, components)
        other = None if held is None else features.read(lesson.samples.take(held), components)
        outputs = 1 if lesson.link == "two" else lesson.classes
        builder = _Builder(outputs, exclusive=lesson.link == "softmax")
        targets = [answers[:, place] for place in range(outputs)] if lesson.kind == "labels" else [answers]
        for place, own in enumerate(targets):
            truth = None if held is None else lesson.answers[held]
            truth = truth[:, place] if truth is not None and lesson.kind == "labels" else truth
            share = limit.part(len(targets) - place)
            self._boost(builder, place, (table, own), (other, truth), share, iterations, lesson)
        return TreesPredictor(features, components, builder.forest(), builder.start, None, lesson.link)

    def _boost(
        self,
        builder: _Builder,
        place: int,
        shown: tuple[NDArray[np.float64], NDArray[Any]],
        held: tuple[NDArray[np.float64] | None, NDArray[Any] | None],
        limit: Limit,
        iterations: int,
        lesson: LabelledSamples,
    ) -> None:
        """Boost for one answer, and add the trees of the best iteration."""
        from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

        table, answers = shown
        quantity = lesson.kind == "quantity"
        there = np.unique(answers)
        if len(there) == 1:
            if quantity:
                builder.start[place] = there[0]
            else:
                builder.constant(place, int(there[0]))
            return
        model = (HistGradientBoostingRegressor if quantity else HistGradientBoostingClassifier)(
            learning_rate=self.rate,
            max_leaf_nodes=self.leaves,
            min_samples_leaf=min(self.fewest, max(1, len(answers) // 10)),
            l2_regularization=self.penalty,
            max_iter=1,
            early_stopping=False,
            warm_start=True,
            random_state=lesson.seed % 2**32,
        )
        best, lowest, done = 1, np.inf, 0
        while done < iterations and (limit.left > 0 or not done):
            model.max_iter = min(done + min(CHUNK, max(1, done)), iterations)
            with threads(table.size):
                model.fit(table, answers)
            done = model.max_iter
            if held[0] is None or held[1] is None or not len(held[1]):
                best = done
            else:
                if quantity:
                    loss = float(((model.predict(held[0]) - held[1]) ** 2).mean())
                else:
                    loss = _log_loss(model.predict_proba(held[0]), held[1], model.classes_)
                if loss < lowest:
                    best, lowest = done, loss
                if done - best >= PATIENCE:
                    break
        builder.add(model, place, there.astype(np.int64), best)


class _Builder:
    """Collects the trees of scikit-learn's models as arrays.

    Args:
        outputs: O.
        exclusive: Whether the outputs are those of classes, of which a model may lack some.
    """

    def __init__(self, outputs: int, *, exclusive: bool) -> None:
        self._exclusive = exclusive
        self.start = np.zeros(outputs)
        self._parts: dict[str, list[NDArray[Any]]] = {name: [] for name in (*Forest.NAMES, "value")}
        self._nodes = 0

    def constant(self, place: int, answer: int) -> None:
        """An answer that is the same in all samples."""
        if self._exclusive:
            self.start[:] = -FAR
            self.start[answer] = FAR
        else:
            self.start[place] = FAR if answer else -FAR

    def add(self, model: Any, place: int, there: NDArray[np.int64], iterations: int) -> None:
        """The first so many iterations of a model for the classes that there are."""
        outputs = model.n_trees_per_iteration_
        first = np.asarray(model._baseline_prediction, np.float64).reshape(-1)
        targets = [place]
        if self._exclusive:
            self.start[:] = -FAR
            # Of two classes scikit-learn has one output, that of the second; the first one's is 0.
            self.start[there] = first if outputs > 1 else (0.0, first[0])
            targets = there[-outputs:].tolist()
        else:
            self.start[place] = first[0]
        for trees in model._predictors[:iterations]:
            for number, tree in enumerate(trees):
                self._tree(tree.nodes, targets[number])

    def _tree(self, nodes: Any, target: int) -> None:
        begin, leaf = self._nodes, nodes["is_leaf"] == 1
        columns = {
            "roots": np.asarray([begin]),
            "target": np.asarray([target]),
            "feature": np.where(leaf, LEAF, nodes["feature_idx"].astype(np.int64)),
            "threshold": np.where(leaf, 0.0, nodes["num_threshold"]).clip(-1e300, 1e300),
            "left": np.where(leaf, 0, nodes["left"].astype(np.int64) + begin),
            "right": np.where(leaf, 0, nodes["right"].astype(np.int64) + begin),
            "missing_left": nodes["missing_go_to_left"],
            "value": nodes["value"].reshape(-1, 1),
        }
        for name, column in columns.items():
            self._parts[name].append(column)
        self._nodes += len(nodes)

    def forest(self) -> Forest:
        """All trees together."""
        empty = {name: np.zeros((0, 1) if name == "value" else 0) for name in self._parts}
        return Forest(**{name: np.concatenate(parts) if parts else empty[name] for name, parts in self._parts.items()})


def _log_loss(chances: NDArray[np.float64], answers: NDArray[Any], classes: NDArray[Any]) -> float:
    """Mean log-loss; an answer that no training sample has counts as improbable."""
    place = {int(name): number for number, name in enumerate(classes.tolist())}
    found = [chances[row, place[int(answer)]] if int(answer) in place else 0.0 for row, answer in enumerate(answers)]
    return float(-np.log(np.clip(found, 1e-9, 1)).mean())

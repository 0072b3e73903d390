"""Plain candidates kept as arrays predict what scikit-learn predicts, before and after they were stored."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from evodevo import canonical
from evodevo.errors import UsageError
from evodevo.estimators.automatic.candidates import forest
from evodevo.estimators.automatic.candidates.base import (
    PREDICTORS,
    FitCandidate,
    LabelledSamples,
    Limit,
    ProbabilityModel,
)
from evodevo.estimators.automatic.candidates.boosting import Boosting
from evodevo.estimators.automatic.candidates.constant import Constant
from evodevo.estimators.automatic.candidates.forest import ExtraTrees, RandomForest
from evodevo.estimators.automatic.candidates.linear import Linear
from evodevo.estimators.automatic.candidates.mean import MeanPredictor, mean
from evodevo.estimators.automatic.candidates.neighbours import Neighbours
from evodevo.estimators.automatic.candidates.trees import Forest, TreesPredictor
from evodevo.estimators.automatic.features.dense import DenseFeatures
from evodevo.randomness import generator
from evodevo.tasks.rows import sources
from evodevo.tasks.rows.samples import RowReading
from evodevo.tasks.rows.targets import Targets

CANDIDATES: list[FitCandidate] = [
    Constant(),
    Linear(1.0),
    Linear(3.0, characters=True),
    Neighbours(3),
    Boosting("boosting", rate=0.2, leaves=8, fewest=5, penalty=0.0),
    ExtraTrees(),
    RandomForest(),
]


def make(kind: str, *, texts: bool = True, classes: int = 3, count: int = 90) -> LabelledSamples:
    """Rows with missing numbers, categories and texts, and answers that depend on them."""
    rng = generator(0, "rows", kind, classes)
    numbers = rng.normal(size=(count, 3))
    colours = rng.integers(0, 3, count)
    words = np.asarray(["stone", "river", "cloud"])[rng.integers(0, 3, count)]
    answer = (numbers[:, 0] + colours + (words == "river") > 1).astype(int) + (numbers[:, 1] > 0.5) * (classes > 2)
    columns: dict[str, Any] = {
        "a": [None if rng.random() < 0.1 else value for value in numbers[:, 0].tolist()],
        "b": numbers[:, 1],
        "colour": np.asarray(["red", "green", "blue"])[colours],
    }
    if texts:
        columns["text"] = [f"there is a {word} in number {row % 17}" for row, word in enumerate(words.tolist())]
    if kind == "labels":
        rows = sources.read(columns | {"p": answer > 0, "q": colours == 1})
        targets = Targets.of(rows, ("p", "q"))
    else:
        rows = sources.read(columns | {"y": [f"class {place}" for place in answer]})
        targets = Targets.of(rows, "y")
    reading = RowReading.of(rows, targets.columns)
    samples = reading.read(rows)
    return LabelledSamples(samples, targets.read(rows), targets.kind, len(targets.names), reading.levels, 7)


def limit() -> Limit:
    return Limit(time.monotonic() + 60)


def stored(predictor: ProbabilityModel) -> ProbabilityModel:
    """Through JSON and plain arrays, as a file does it."""
    facts, arrays = predictor.to_state()
    facts = canonical.loads(canonical.dumps(facts))
    return PREDICTORS.get(predictor.form).from_state(facts, {name: array.copy() for name, array in arrays.items()})


@pytest.mark.parametrize("kind", ["class", "labels"])
@pytest.mark.parametrize("candidate", CANDIDATES, ids=lambda one: one.name)
def test_laws(candidate: FitCandidate, kind: str) -> None:
    lesson = make(kind, texts=not isinstance(candidate, Neighbours))
    train, held = np.arange(60), np.arange(60, 90)
    predictor = candidate.train(lesson, train, held, limit())
    samples = lesson.samples.take(held)
    chances = predictor.probabilities(samples)
    assert chances.shape == (30, lesson.classes)
    assert (chances >= 0).all()
    assert (chances <= 1 + 1e-12).all()
    if kind == "class":
        np.testing.assert_allclose(chances.sum(1), 1)
    assert (stored(predictor).probabilities(samples) == chances).all()
    alone = predictor.probabilities(samples.take(np.asarray([4])))
    np.testing.assert_allclose(alone[0], chances[4], rtol=1e-12, atol=1e-15)
    again = candidate.retrain(lesson, np.arange(90), [predictor], limit())
    assert again.probabilities(samples).shape == chances.shape


@pytest.mark.parametrize("classes", [2, 3])
def test_logistic_regression_is_scikit_learns(classes: int) -> None:
    from sklearn.linear_model import LogisticRegression

    lesson = make("class", classes=classes)
    rows = np.arange(60)
    predictor: Any = Linear(2.0).train(lesson, rows, rows, limit())
    table = predictor.features.read(lesson.samples)
    reference = LogisticRegression(C=2.0, max_iter=200, tol=1e-3).fit(table[rows], lesson.answers[rows])
    expected = reference.predict_proba(table)
    np.testing.assert_allclose(predictor.probabilities(lesson.samples), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("classes", [2, 3])
def test_boosting_is_scikit_learns(classes: int) -> None:
    from sklearn.ensemble import HistGradientBoostingClassifier

    lesson = make("class", classes=classes)
    rows = np.arange(90)
    candidate = Boosting("b", rate=0.2, leaves=8, fewest=5, penalty=0.5)
    predictor = candidate.train(lesson, rows, rows, limit())
    assert isinstance(predictor, TreesPredictor)
    outputs = 1 if classes == 2 else classes
    table = predictor.features.read(lesson.samples, predictor.components)
    assert np.isnan(table).any()
    reference = HistGradientBoostingClassifier(
        learning_rate=0.2,
        max_leaf_nodes=8,
        min_samples_leaf=5,
        l2_regularization=0.5,
        max_iter=len(predictor.forest.roots) // outputs,
        early_stopping=False,
        random_state=7,
    ).fit(table, lesson.answers)
    expected = reference.predict_proba(table)
    np.testing.assert_allclose(predictor.probabilities(lesson.samples), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("resampled", [False, True])
def test_forests_are_scikit_learns(resampled: bool) -> None:
    from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier

    lesson = make("class")
    rows = np.arange(60)  # on these alone all forests answer alike
    predictor: Any = (RandomForest if resampled else ExtraTrees)().train(lesson, rows, rows, limit())
    table = predictor.features.read(lesson.samples, predictor.components)
    filled = np.where(np.isnan(table), predictor.fill, table)
    kind = RandomForestClassifier if resampled else ExtraTreesClassifier
    reference = kind(forest.TREES, random_state=7).fit(filled[rows], lesson.answers[rows])
    expected = reference.predict_proba(filled)
    assert 0 < expected.max(1)[60:].min() < 0.9
    np.testing.assert_allclose(predictor.probabilities(lesson.samples), expected, rtol=1e-9, atol=1e-12)


def test_a_class_that_a_fold_lacks_gets_no_probability() -> None:
    lesson = make("class")
    rows = np.flatnonzero(lesson.answers != 1)
    for candidate in (Linear(1.0), CANDIDATES[4], ExtraTrees(), Constant()):
        chances = candidate.train(lesson, rows, rows, limit()).probabilities(lesson.samples)
        assert chances.shape == (90, 3)
        assert (chances[:, 1] < 1e-3).all()
        assert np.isfinite(chances).all()
        if not isinstance(candidate, Constant):
            assert (chances.argmax(1) == lesson.answers)[rows].mean() > 0.9


def test_the_mean_of_models_is_their_weighted_mean() -> None:
    lesson = make("class")
    rows = np.arange(60)
    parts = [one.train(lesson, rows, rows, limit()) for one in (Constant(), Linear(1.0))]
    both = MeanPredictor(parts, [0.25, 0.75])
    first, second = (part.probabilities(lesson.samples) for part in parts)
    np.testing.assert_allclose(both.probabilities(lesson.samples), 0.25 * first + 0.75 * second)
    inner = mean([both, parts[1]])
    assert (stored(inner).probabilities(lesson.samples) == inner.probabilities(lesson.samples)).all()
    assert mean(parts[:1]) is parts[0]


def test_trees_that_lead_back_are_refused() -> None:
    lesson = make("class")
    rows = np.arange(60)
    predictor: Any = CANDIDATES[4].train(lesson, rows, rows, limit())
    arrays: dict[str, NDArray[Any]] = predictor.forest.arrays()
    inner = int(np.flatnonzero(arrays["feature"] >= 0)[0])
    for name, value in (("left", inner), ("right", 10**6), ("feature", -5)):
        damaged = {key: array.copy() for key, array in arrays.items()}
        damaged[name][inner] = value
        with pytest.raises(UsageError, match="lead out of themselves"):
            Forest.read(damaged)


def test_what_rounding_adds_to_components_of_texts_reaches_no_tree() -> None:
    """Another processor, or the exported program, sums in another order; some components are noise alone."""
    lesson = make("class")
    features, components = DenseFeatures.of(lesson.samples, lesson.levels, 0)
    noise = generator(1, "rounding").normal(size=components[0].shape)
    others = [components[0] + 1e-14 * noise]
    assert not np.array_equal(others[0], components[0])
    table = features.read(lesson.samples, components)
    np.testing.assert_array_equal(features.read(lesson.samples, others), table)
    exact = np.asarray(features.terms[0].read(lesson.samples.texts[0]) @ components[0])
    width = table.shape[1] - 2 - exact.shape[1]
    np.testing.assert_allclose(table[:, width:-2], exact, rtol=0, atol=1e-9)
    assert (np.unique(table[:, width:-2], axis=0).shape[0]) == len(set(lesson.samples.texts[0]))

"""Candidates for a quantity predict what scikit-learn predicts, before and after they were stored."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from evodevo import canonical
from evodevo.errors import UnsafeFileError
from evodevo.estimators.automatic.candidates import forest
from evodevo.estimators.automatic.candidates.base import (
    PREDICTORS,
    FitCandidate,
    LabelledSamples,
    Limit,
    ProbabilityModel,
)
from evodevo.estimators.automatic.candidates.boosting import Boosting
from evodevo.estimators.automatic.candidates.constant import MeanValue
from evodevo.estimators.automatic.candidates.forest import ExtraTrees, RandomForest
from evodevo.estimators.automatic.candidates.neighbours import Neighbours
from evodevo.estimators.automatic.candidates.network import NetworkRow, inputs
from evodevo.estimators.automatic.candidates.ridge import Ridge
from evodevo.estimators.automatic.candidates.trees import TreesPredictor
from evodevo.estimators.automatic.networks.predictor import NetworkPredictor
from evodevo.estimators.automatic.networks.race import NetworkRace
from evodevo.randomness import generator
from evodevo.tasks.rows import sources
from evodevo.tasks.rows.samples import RowReading
from evodevo.tasks.rows.targets import Targets

CANDIDATES: list[FitCandidate] = [
    MeanValue(),
    Ridge(1.0),
    Ridge(3.0, characters=True),
    Neighbours(3),
    Boosting("boosting", rate=0.2, leaves=8, fewest=5, penalty=0.0),
    ExtraTrees(),
    RandomForest(),
]
TRAIN, HELD = np.arange(60), np.arange(60, 90)


def make(*, texts: bool = True, count: int = 90) -> LabelledSamples:
    """Rows with missing numbers, categories and texts, and a value around 500 that depends on them."""
    rng = generator(0, "values")
    numbers, colours = rng.normal(size=(count, 3)), rng.integers(0, 3, count)
    words = np.asarray(["stone", "river", "cloud"])[rng.integers(0, 3, count)]
    columns: dict[str, Any] = {
        "a": [None if rng.random() < 0.1 else value for value in numbers[:, 0].tolist()],
        "b": numbers[:, 1],
        "colour": np.asarray(["red", "green", "blue"])[colours],
        "y": 500 + 100 * (numbers[:, 0] + colours + 0.5 * numbers[:, 1] + (words == "river")),
    }
    if texts:
        columns["text"] = [f"there is a {word} in number {row % 17}" for row, word in enumerate(words.tolist())]
    rows = sources.read(columns)
    targets = Targets.of(rows, "y")
    reading = RowReading.of(rows, targets.columns)
    return LabelledSamples(reading.read(rows), targets.read(rows), targets.kind, 1, reading.levels, 7)


def limit() -> Limit:
    return Limit(time.monotonic() + 60)


def stored(predictor: ProbabilityModel) -> ProbabilityModel:
    facts, arrays = predictor.to_state()
    facts = canonical.loads(canonical.dumps(facts))
    return PREDICTORS.get(predictor.form).from_state(facts, {name: array.copy() for name, array in arrays.items()})


@pytest.mark.parametrize("candidate", CANDIDATES, ids=lambda one: one.name)
def test_laws(candidate: FitCandidate) -> None:
    lesson = make(texts=not isinstance(candidate, Neighbours))
    predictor = candidate.train(lesson, TRAIN, HELD, limit())
    samples = lesson.samples.take(HELD)
    values = predictor.probabilities(samples)
    assert values.shape == (30, 1)
    assert (stored(predictor).probabilities(samples) == values).all()
    alone = predictor.probabilities(samples.take(np.asarray([4])))
    np.testing.assert_allclose(alone[0], values[4], rtol=1e-12)
    assert candidate.retrain(lesson, np.arange(90), [predictor], limit()).probabilities(samples).shape == (30, 1)
    error = ((values[:, 0] - lesson.answers[HELD]) ** 2).mean() / lesson.answers[HELD].var()
    assert error < 1 if not isinstance(candidate, MeanValue) else error >= 1
    assert values.min() > 0


def compared(predictor: ProbabilityModel, lesson: LabelledSamples, expected: NDArray[np.float64]) -> None:
    found = predictor.probabilities(lesson.samples)[:, 0]
    assert expected[HELD].std() > 10
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(stored(predictor).probabilities(lesson.samples)[:, 0], expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("texts", [False, True])
def test_ridge_is_scikit_learns(texts: bool) -> None:
    from sklearn import linear_model

    lesson = make(texts=texts)
    predictor: Any = Ridge(2.0, characters=True).train(lesson, TRAIN, HELD, limit())
    table = predictor.features.read(lesson.samples)
    reference = linear_model.Ridge(alpha=2.0).fit(table[TRAIN], lesson.answers[TRAIN])
    compared(predictor, lesson, reference.predict(table))


def test_boosting_is_scikit_learns() -> None:
    from sklearn.ensemble import HistGradientBoostingRegressor

    lesson = make()
    predictor = Boosting("b", rate=0.2, leaves=8, fewest=5, penalty=0.5).train(lesson, TRAIN, HELD, limit())
    assert isinstance(predictor, TreesPredictor)
    table = predictor.features.read(lesson.samples, predictor.components)
    assert np.isnan(table).any()
    reference = HistGradientBoostingRegressor(
        learning_rate=0.2,
        max_leaf_nodes=8,
        min_samples_leaf=5,
        l2_regularization=0.5,
        max_iter=len(predictor.forest.roots),
        early_stopping=False,
        random_state=7,
    ).fit(table[TRAIN], lesson.answers[TRAIN])
    compared(predictor, lesson, reference.predict(table))


def test_boosting_stops_where_the_held_out_error_is_lowest() -> None:
    from sklearn.ensemble import HistGradientBoostingRegressor

    rng = generator(3, "noise")
    lesson = make()
    noise = LabelledSamples(lesson.samples, rng.normal(size=90), "quantity", 1, lesson.levels, 7)
    predictor: Any = Boosting("b", rate=0.3, leaves=8, fewest=5, penalty=0.0).train(noise, TRAIN, HELD, limit())
    table = predictor.features.read(lesson.samples, predictor.components)
    errors = {}
    for count in (1, 2, 4, 8, 16, 26, 36, 40):
        model = HistGradientBoostingRegressor(
            learning_rate=0.3, max_leaf_nodes=8, min_samples_leaf=5, max_iter=count, early_stopping=False
        ).fit(table[TRAIN], noise.answers[TRAIN])
        errors[count] = ((model.predict(table[HELD]) - noise.answers[HELD]) ** 2).mean()
    assert len(predictor.forest.roots) == min(errors, key=lambda count: errors[count])


@pytest.mark.parametrize("resampled", [False, True])
def test_forests_are_scikit_learns(resampled: bool) -> None:
    from sklearn.ensemble import ExtraTreesRegressor, RandomForestRegressor

    lesson = make()
    predictor: Any = (RandomForest if resampled else ExtraTrees)().train(lesson, TRAIN, HELD, limit())
    table = predictor.features.read(lesson.samples, predictor.components)
    filled = np.where(np.isnan(table), predictor.fill, table)
    kind: Any = partial(RandomForestRegressor, max_features=1 / 3) if resampled else ExtraTreesRegressor
    reference = kind(forest.TREES, random_state=7).fit(filled[TRAIN], lesson.answers[TRAIN])
    compared(predictor, lesson, reference.predict(filled))


def test_neighbours_are_scikit_learns() -> None:
    from sklearn.neighbors import KNeighborsRegressor

    def weights(distances: NDArray[np.float64]) -> NDArray[np.float64]:
        return 1 / (distances + 0.1 * distances.mean(1, keepdims=True) + 1e-9)

    lesson = make(texts=False)
    predictor: Any = Neighbours(4).train(lesson, TRAIN, HELD, limit())
    table = np.asarray(predictor.features.read(lesson.samples), np.float32).astype(np.float64)
    reference = KNeighborsRegressor(4, weights=weights, algorithm="brute").fit(table[TRAIN], lesson.answers[TRAIN])
    expected = reference.predict(table[HELD])
    assert expected.std() > 10
    found = predictor.probabilities(lesson.samples.take(HELD))[:, 0]
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_the_mean_is_the_mean() -> None:
    lesson = make()
    found = MeanValue().train(lesson, TRAIN, HELD, limit()).probabilities(lesson.samples)
    np.testing.assert_allclose(found, lesson.answers[TRAIN].mean())


@pytest.mark.slow
def test_networks_learn_values_of_any_size() -> None:
    """The error does not depend on the unit, which is stored with the network; no network of modules takes part."""
    lesson = make(texts=False, count=300)
    given, train, held = inputs(lesson.samples, lesson.levels), np.arange(240), np.arange(240, 300)
    errors = []
    for unit in (1.0, 1e-4):
        answers = lesson.answers * unit
        race = NetworkRace(given, answers, "quantity", 1, train, held, 0)
        assert all(arm.structure.zoo is None for arm in race.arms)
        race.arms = race.arms[:1]
        (result,) = race.run(60.0, lambda _: None, max_steps=300)
        network = NetworkRow(result.predictor, lesson.levels)
        values = network.probabilities(lesson.samples)
        np.testing.assert_allclose(values[held], result.validation, rtol=1e-5)
        assert (stored(network).probabilities(lesson.samples) == values).all()
        errors.append(((result.validation[:, 0] - answers[held]) ** 2).mean() / answers[held].var())
    assert errors[0] < 0.5
    assert errors[1] == pytest.approx(errors[0], rel=1e-3)
    facts, arrays = result.predictor.to_state()
    with pytest.raises(UnsafeFileError, match="scale"):
        NetworkPredictor.from_state({**facts, "scale": None}, arrays)

"""Classifiers answer with the best of their zoo and plain models, and say what every other had."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from evodevo.errors import UsageError
from evodevo.estimators import GrowingClassifier, ZooClassifier

COUNT = 120


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


def lines() -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Numbers whose sum tells the class; a zoo of one step does not find it."""
    X = np.random.default_rng(0).normal(size=(COUNT, 6))
    return X, (X.sum(1) > 0).astype(np.int64)


def weak(**changes: Any) -> ZooClassifier:
    """A zoo that learns nothing."""
    values = {"width": 8, "modules": ("mlp",), "epochs": 1, "learning_rate": 1e-6, "validation_fraction": 0.4}
    return ZooClassifier(**{**values, "device": "cpu", "random_state": 0, **changes})


def test_a_better_plain_model_is_told_where_the_zoo_is_to_answer() -> None:
    X, y = lines()
    with pytest.warns(UserWarning, match="the zoo answers") as told:
        model = weak(plain="report").fit(X, y)
    assert told[0].filename == __file__
    found = model.comparison_
    assert found is not None
    assert found["better"]
    assert found["lead_low"] > 0
    assert found["best_plain"] in str(told[0].message)
    assert f"{found['scores'][found['best_plain']]:.4f}" in str(told[0].message)
    assert model.chosen_ == "zoo"
    alone = weak(plain=False).fit(X, y)
    assert alone.comparison_ is None
    assert alone.verdict_ == "the zoo answers; nothing was compared with it."
    np.testing.assert_array_equal(alone.predict_proba(X), model.predict_proba(X))


def test_the_score_is_that_of_the_same_model_on_the_same_rows() -> None:
    from evodevo.estimators.fitting import divided

    X, y = lines()
    with pytest.warns(UserWarning, match="best on 48 held out samples"):
        model = weak(plain="report").fit(X, y)
    rows = divided(y, None, 0.4)
    scaled = (X - X[rows["train"]].mean(0)) / X[rows["train"]].std(0)
    known = LogisticRegression(C=1.0).fit(scaled[rows["train"]], y[rows["train"]])
    assert model.comparison_ is not None
    score = known.score(scaled[rows["validation"]], y[rows["validation"]])
    assert model.comparison_["scores"]["logistic regression, C = 1"] == pytest.approx(score)
    assert model.comparison_["scores"]["zoo"] == model.score(X[rows["validation"]], y[rows["validation"]])


def test_the_best_answers_says_what_every_other_had_and_is_kept(tmp_path: Path) -> None:
    X, y = lines()
    model = weak().fit(X, y)
    found = model.comparison_
    assert found is not None
    assert model.chosen_ == found["best"] == found["best_plain"] != "zoo"
    assert all(
        f"{name} {score:.4f}" in model.verdict_ for name, score in found["scores"].items() if name != found["best"]
    )
    assert found["scores"][found["best"]] == max(found["scores"].values())
    assert model.score(X, y) > 0.95
    assert list(model.routing(X[:2])) == model.modules_
    model.save(tmp_path)
    again = ZooClassifier.load(tmp_path)
    assert again.chosen_ == model.chosen_
    assert again.comparison_ == model.comparison_
    assert again.verdict_ == model.verdict_
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))


def test_a_zoo_that_is_best_stays_without_a_warning(capsys: pytest.CaptureFixture[str]) -> None:
    X = {"vectors": np.repeat([[0.0], [1.0]], 30, 0), "text": ["a", "b"] * 30}
    y = np.repeat(["no", "yes"], 30)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = weak(epochs=40, learning_rate=4e-2, dropout=0.0, verbose=1).fit(X, y)
    found = model.comparison_
    assert found is not None
    assert found["best"] == model.chosen_ == "zoo"
    assert not found["better"]
    words = model.verdict_
    assert words in capsys.readouterr().out
    assert words.startswith("best on 24 held out samples: zoo, accuracy 1.0000; it answers.")
    assert model.predict({"vectors": [[1.0]]}).tolist() == ["yes"]


@pytest.mark.slow
def test_a_growing_zoo_too(tmp_path: Path) -> None:
    X, y = lines()
    model = GrowingClassifier(
        width=8,
        modules=("mlp",),
        strategist="fixed",
        events=0,
        epochs=1,
        learning_rate=1e-6,
        validation_fraction=0.4,
        device="cpu",
        random_state=0,
    ).fit(X, y)
    assert model.comparison_ is not None
    assert model.chosen_ == model.comparison_["best_plain"]
    assert model.verdict_ in model.report()
    model.save(tmp_path)
    again = GrowingClassifier.load(tmp_path)
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    assert again.replay() is not None


@pytest.mark.slow
def test_images_texts_and_labels() -> None:
    rng = np.random.default_rng(1)
    labels = rng.integers(0, 2, (80, 3))
    images: list[Any] = [np.full((8, 8), 200 * row[0], np.uint8) for row in labels]
    texts = [f"a {'good' if row[1] else 'bad'} film" for row in labels]
    images[5], texts[9] = None, ""
    X = {"image": images, "text": texts, "vectors": labels[:, 2:] + 0.0}
    model = weak().fit(X, labels)
    assert model.chosen_ != "zoo"
    assert model.predict_proba({"text": texts}).shape == (80, 3)
    assert (model.predict(X) == labels).mean() > 0.9


def test_two_samples_prove_nothing() -> None:
    X = np.linspace(-1, 1, 24)[:, None]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = weak(validation_fraction=0.1, plain="report").fit(X, (X[:, 0] > 0).astype(int))
    found = model.comparison_
    assert found is not None
    assert found["held"] < 6
    assert not found["better"]


def test_bad_input() -> None:
    X, y = lines()
    with pytest.raises(UsageError, match="plain is 'perhaps'"):
        weak(plain="perhaps").fit(X, y)
    assert weak(validation_fraction=0.0).fit(X, y).comparison_ is None

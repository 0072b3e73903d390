"""A zoo as a classifier: it learns, repeats itself, is kept and read again, and says what it cannot do."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV

from evodevo.errors import NotFoundError, UnsafeFileError, UsageError
from evodevo.estimators import ZooClassifier
from evodevo.estimators.fitting import divided
from evodevo.module_zoo.named import named_zoo


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


def small(**changes: Any) -> ZooClassifier:
    values = {"width": 8, "modules": ("mlp", "cnn"), "epochs": 15, "learning_rate": 1e-2, "random_state": 0}
    return ZooClassifier(**{**values, "device": "cpu", **changes})


@pytest.fixture(scope="module")
def iris() -> Any:
    return load_iris(return_X_y=True)


@pytest.fixture(scope="module")
def fitted(iris: Any) -> ZooClassifier:
    return small().fit(*iris)


@pytest.mark.slow
def test_it_learns_iris_with_all_six_families(iris: Any) -> None:
    X, y = iris
    model = ZooClassifier(width=16, epochs=30, learning_rate=5e-3, random_state=0, device="cpu").fit(X[::2], y[::2])
    assert model.score(X[1::2], y[1::2]) > 0.9
    assert len(model.modules_) == 6
    assert model.metric_ == "auc"


@pytest.mark.slow
def test_it_says_what_it_saw(iris: Any, fitted: ZooClassifier) -> None:
    X, _ = iris
    assert fitted.classes_.tolist() == [0, 1, 2]
    assert fitted.n_features_in_ == 4
    assert len(fitted.history_) == fitted.n_epochs_ <= 15
    assert fitted.history_[fitted.best_epoch_ - 1]["auc"] == max(one["auc"] for one in fitted.history_)
    weights = fitted.routing(X)
    assert list(weights) == fitted.modules_ == ["mlp-1", "cnn-1"]
    assert np.allclose(sum(weights.values()), 1)


@pytest.mark.slow
def test_equal_seeds_give_equal_models(iris: Any, fitted: ZooClassifier) -> None:
    X, y = iris
    assert np.array_equal(clone(fitted).fit(X, y).predict_proba(X), fitted.predict_proba(X))
    assert not np.array_equal(small(random_state=1).fit(X, y).predict_proba(X), fitted.predict_proba(X))


def test_the_global_random_streams_are_left_alone(iris: Any) -> None:
    X, y = iris
    state, numbers = torch.get_rng_state(), np.random.get_state()[1].copy()  # type: ignore[index,union-attr]
    small(epochs=1).fit(X, y)
    assert torch.equal(torch.get_rng_state(), state)
    assert np.array_equal(np.random.get_state()[1], numbers)  # type: ignore[index]


@pytest.mark.slow
def test_texts_images_and_both() -> None:
    rng = np.random.default_rng(0)
    y = np.array(["no", "yes"] * 40)
    texts = [f"{'good' if one == 'yes' else 'bad'} thing {rng.integers(9)}" for one in y]
    images = rng.integers(0, 100, (80, 6, 6)).astype(np.uint8)
    images[y == "yes", :3] += 100
    by_text = small(epochs=20).fit(texts, y)
    assert by_text.predict(["good", "bad thing"]).tolist() == ["yes", "no"]
    assert "n_features_in_" not in vars(by_text)
    assert small(epochs=20).fit(images, y).score(images, y) > 0.9
    both = small(epochs=20).fit({"image": images, "text": texts}, y)
    assert both.score({"image": images, "text": texts}, y) > 0.9
    alone = both.predict_proba({"text": texts[:3]})
    assert np.allclose(alone.sum(1), 1)
    mixed = both.predict_proba({"image": [None, images[1]], "text": [texts[0], None]})
    assert np.allclose(mixed[0], both.predict_proba({"text": texts[:1]})[0], atol=1e-5)


@pytest.mark.slow
def test_labels() -> None:
    X = np.random.default_rng(0).normal(size=(120, 3))
    labels = (X > 0).astype(int)
    model = small(epochs=30).fit(X, labels)
    assert model.classes_.tolist() == [0, 1, 2]
    found = model.predict(X)
    assert found.shape == model.predict_proba(X).shape == (120, 3)
    assert (found == labels).mean() > 0.9


def test_groups_do_not_stand_on_both_sides() -> None:
    groups = np.repeat(np.arange(20), 5)
    answers = np.tile([0, 1], 50)
    train, validation, _ = divided(answers, groups, 0.2).values()
    assert not set(groups[train]) & set(groups[validation])
    assert sorted([*train, *validation]) == list(range(100))
    assert len(validation) == 20
    train, validation, _ = divided(answers, None, 0.2).values()
    assert answers[validation].mean() == pytest.approx(0.5)
    assert len(divided(answers, None, 0.0)["validation"]) == 0
    assert len(divided(answers[:19], None, 0.2)["validation"]) == 0
    with pytest.raises(UsageError, match="one value for each of 100"):
        divided(answers, groups[:5], 0.2)


@pytest.mark.slow
def test_early_stopping_keeps_the_best_epoch(iris: Any) -> None:
    X, y = iris
    model = small(epochs=60, patience=2, learning_rate=3e-2).fit(X, y)
    assert model.n_epochs_ < 60
    assert model.best_epoch_ == model.n_epochs_ - 2
    last = small(epochs=3, validation_fraction=0).fit(X, y)
    assert (last.metric_, last.best_epoch_, last.n_epochs_) == ("none", 3, 3)
    # With one group of validation samples of one class there is no AUC.
    one_class = small(epochs=2, validation_fraction=0.05).fit(X[:100], y[:100], groups=np.arange(100) // 50)
    assert one_class.metric_ == "loss"


def test_a_clock_ends_training(iris: Any) -> None:
    X, y = iris
    with pytest.warns(ConvergenceWarning, match="of one epoch; give more"):
        model = small(seconds=0.1, batch_size=1).fit(X, y)
    assert model.predict(X).shape == (150,)


def test_what_is_kept_answers_the_same(iris: Any, fitted: ZooClassifier, tmp_path: Path) -> None:
    X, _ = iris
    folder = tmp_path / "model"
    fitted.save(folder)
    assert {one.name for one in folder.iterdir()} == {"zoo.json", "weights.safetensors"}
    again = ZooClassifier.load(folder)
    assert np.array_equal(again.predict_proba(X), fitted.predict_proba(X))
    assert again.get_params() == fitted.get_params()
    assert (again.n_features_in_, again.best_epoch_, again.history_) == (4, fitted.best_epoch_, fitted.history_)
    again.save(folder)


def test_texts_with_classes_of_their_own_are_kept(tmp_path: Path) -> None:
    texts = ["a b", "b c", "c d", "d e"] * 6
    fitted = small(epochs=1, modules=named_zoo("start", 8)).fit(texts, ["x", "y"] * 12)
    fitted.save(tmp_path)
    again = ZooClassifier.load(tmp_path)
    assert again.predict(texts).tolist() == fitted.predict(texts).tolist()
    assert again.modules_ == fitted.modules_


def test_folders_that_hold_something_else(fitted: ZooClassifier, tmp_path: Path) -> None:
    with pytest.raises(NotFittedError):
        small().save(tmp_path)
    with pytest.raises(NotFoundError, match=r"zoo\.json"):
        ZooClassifier.load(tmp_path)
    (tmp_path / "mine.txt").write_text("x")
    with pytest.raises(UsageError, match="other files"):
        fitted.save(tmp_path)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"format": "evodevo.zoo_classifier/9"}, "format"),
        ({"parameters": {"widht": 3}}, "widht"),
        ({"classes": ["a"]}, "no classifier of this evodevo"),
        ({"structure": {"modules": [{"id": "x"}]}}, "genotype"),
        ({"reading": {"mean": [0.0]}}, "no classifier of this evodevo"),
    ],
)
def test_a_changed_description_is_refused(fitted: ZooClassifier, tmp_path: Path, change: Any, words: str) -> None:
    fitted.save(tmp_path)
    about = json.loads((tmp_path / "zoo.json").read_text())
    (tmp_path / "zoo.json").write_text(json.dumps({**about, **change}))
    with pytest.raises(UnsafeFileError, match=words):
        ZooClassifier.load(tmp_path)


def test_an_unknown_kind_of_module_and_damaged_weights_are_refused(fitted: ZooClassifier, tmp_path: Path) -> None:
    fitted.save(tmp_path)
    about = (tmp_path / "zoo.json").read_text()
    (tmp_path / "zoo.json").write_text(about.replace('"type":"feed_forward"', '"type":"feed_sideways"'))
    with pytest.raises(UnsafeFileError, match="feed_sideways"):
        ZooClassifier.load(tmp_path)
    (tmp_path / "zoo.json").write_text(about)
    (tmp_path / "weights.safetensors").write_bytes(b"no weights")
    with pytest.raises(UnsafeFileError):
        ZooClassifier.load(tmp_path)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"modules": "strat"}, "Did you mean 'start'"),
        ({"modules": ("mlp", "lsmt")}, "Did you mean 'lstm'"),
        ({"modules": ()}, "at least one module"),
        ({"modules": named_zoo("start", 16)}, "width 16, the zoo has 8"),
        ({"modules": ("mlp", *named_zoo("start", 8))}, "not both"),
        ({"width": 3}, "width"),
        ({"epochs": 0}, "epochs is 0"),
        ({"batch_size": 0}, "batch_size is 0"),
        ({"learning_rate": -1.0}, "learning_rate"),
        ({"seconds": -1.0}, "seconds"),
        ({"validation_fraction": 1.0}, "validation_fraction is 1.0"),
        ({"dropout": 2.0}, "dropout"),
        ({"device": "gpu"}, "device.*'gpu'"),
        ({"text_length": 0}, "length"),
        ({"patience": 0}, "patience is 0"),
    ],
)
def test_parameters_that_cannot_be(iris: Any, changes: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        small(**changes).fit(*iris)


@pytest.mark.parametrize(
    ("y", "words"),
    [
        (["a"] * 150, "one class alone, 'a'"),
        ([0, 1], "150 samples and y has 2|inconsistent numbers"),
        (np.linspace(0, 1, 150), "Unknown label type"),
        (None, "requires y"),
        (np.tile([[0, 1, 2], [2, 1, 0], [1, 2, 0]], (50, 1)), "several columns of classes"),
    ],
)
def test_targets_that_cannot_be(iris: Any, y: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        small().fit(iris[0], y)
    if y is not None:
        with pytest.raises(ValueError, match=words):
            small().fit({"vectors": iris[0]}, y)


def test_a_loss_that_is_lost_is_said(iris: Any) -> None:
    with pytest.raises(UsageError, match="smaller learning_rate"):
        small(learning_rate=1e30).fit(*iris)


def test_no_time_at_all_is_an_error(iris: Any) -> None:
    with pytest.raises(UsageError, match="before the first step"):
        small(seconds=1e-9).fit(*iris)


def test_it_says_how_it_goes(iris: Any, capsys: pytest.CaptureFixture[str]) -> None:
    small(epochs=2, verbose=1).fit(*iris)
    assert capsys.readouterr().out.startswith("epoch 1: train_loss ")


@pytest.mark.slow
def test_it_works_in_a_search(iris: Any) -> None:
    search = GridSearchCV(small(epochs=2), {"modules": [("mlp",), "start"]}, cv=2).fit(*iris)
    assert search.best_params_["modules"] in (("mlp",), "start")


@pytest.mark.slow
def test_the_class_is_found_without_torch() -> None:
    script = (
        "import sys, evodevo, evodevo.estimators\n"
        "assert evodevo.ZooClassifier is evodevo.estimators.ZooClassifier\n"
        "evodevo.ZooClassifier(width=8)\n"
        "assert 'torch' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr

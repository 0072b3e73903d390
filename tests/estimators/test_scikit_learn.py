"""scikit-learn's own checks of estimators."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from sklearn.utils.estimator_checks import estimator_checks_generator, parametrize_with_checks

from evodevo.estimators import GrowingClassifier, ZooClassifier

SMALL = ZooClassifier(
    width=8, modules=("mlp", "squeeze_excite"), epochs=5, dropout=0.0, learning_rate=4e-2, device="cpu", plain=False
)
GROWING = GrowingClassifier(
    width=8,
    modules=("mlp", "squeeze_excite"),
    strategist="random",
    events={"count": 2, "warm": 0.2, "horizon": 0.1},
    growth={"prune": {"age": 0, "least": 1, "tolerance": 10.0, "distil_steps": 2}, "replay": {"steps": 1}},
    epochs=8,
    dropout=0.0,
    learning_rate=3e-2,
    device="cpu",
    plain=False,
)


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.mark.slow
@parametrize_with_checks([SMALL])  # type: ignore[untyped-decorator]
def test_a_classifier_of_scikit_learn(estimator: Any, check: Any) -> None:
    check(estimator)


# What a growth could break; all else is the code of the classifier above.
OF_GROWTH = (
    "check_classifiers_train",
    "check_classifiers_one_label",
    "check_dict_unchanged",
    "check_estimators_overwrite_params",
    "check_estimators_pickle",
    "check_fit2d_1sample",
    "check_fit_idempotent",
    "check_methods_subset_invariance",
    "check_parameters_default_constructible",
)
CHECKS = list(estimator_checks_generator(GROWING))


@pytest.mark.slow
@pytest.mark.parametrize("name", OF_GROWTH)
def test_a_growing_classifier_of_scikit_learn(name: str) -> None:
    estimator, check = next(one for one in CHECKS if getattr(one[1], "func", one[1]).__name__ == name)
    check(estimator)

"""scikit-learn's own checks of estimators; what is expected to fail says why."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from sklearn.utils.estimator_checks import estimator_checks_generator, parametrize_with_checks

from evodevo.estimators import GrowingClassifier, ZooClassifier

SMALL = ZooClassifier(width=8, modules=("mlp", "transformer"), epochs=12, dropout=0.0, learning_rate=1e-2, device="cpu")
GROWING = GrowingClassifier(
    width=8,
    modules=("mlp", "transformer"),
    strategist="random",
    events={"count": 2, "warm": 0.2, "horizon": 0.1},
    growth={"prune": {"age": 0, "least": 1, "tolerance": 10.0, "distil_steps": 2}, "replay": {"steps": 1}},
    epochs=10,
    dropout=0.0,
    learning_rate=2e-2,
    device="cpu",
)


def expected(estimator: Any) -> dict[str, str]:
    """Check -> why it cannot pass."""
    return {}


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.mark.slow
@parametrize_with_checks([SMALL], expected_failed_checks=expected)  # type: ignore[untyped-decorator]
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


@pytest.mark.slow
@pytest.mark.parametrize("name", OF_GROWTH)
def test_a_growing_classifier_of_scikit_learn(name: str) -> None:
    estimator, check = next(one for one in estimator_checks_generator(GROWING) if name_of(one[1]) == name)
    check(estimator)


def name_of(check: Any) -> str:
    """Of a check, whose settings may be bound already."""
    return str(getattr(check, "func", check).__name__)

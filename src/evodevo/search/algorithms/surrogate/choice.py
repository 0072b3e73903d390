"""Which of many candidates to evaluate: one after the other, the one of the largest expected hypervolume gain."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from evodevo.search.algorithms.surrogate.features import Features
from evodevo.search.algorithms.surrogate.improvement import Shortfall, exact_shortfall, expected_gain
from evodevo.search.algorithms.surrogate.objective_model import Fitted, ObjectiveModel, fit_objective
from evodevo.search.dominance import Floats, Integers

MARGIN = 1.0
"""The reference point lies this share of the range beyond the worst value of each objective. Both ends of the front
are worth more the farther it lies; at a tenth, a better best quality counts for almost nothing."""
FARTHEST = 1e6
LEAST_SUCCESS = 0.02
DIGITS = 9
"""Gains are compared after rounding, so that the last bits of a sum decide nothing."""


class KnownObjective:
    """An objective whose values need no evaluation; shape (candidates,)."""

    def __init__(self, values: Floats) -> None:
        self._values = values
        self.deviations = np.zeros(len(values))

    def shortfall(self) -> Shortfall:
        """See ``ObjectiveModel``."""
        return exact_shortfall(self._values)

    def optimistic(self, candidate: int) -> float:
        """The value."""
        return float(self._values[candidate])

    def imagine(self, candidate: int) -> None:
        """Nothing changes."""


class ObjectiveScale:
    """Objective values with 0 at the smallest and 1 at the largest observed one.

    Args:
        values: Observed values, shape (n, objectives), finite, n >= 1.
    """

    def __init__(self, values: Floats) -> None:
        halves = values / 2  # because the difference of two finite floats can overflow to infinity
        self._low = halves.min(axis=0)
        spans = halves.max(axis=0) - self._low
        self._spans = np.where(spans > 0, spans, 1.0)
        self.reference = np.full(values.shape[1], 1.0 + MARGIN)

    def __call__(self, values: Floats, objective: int) -> Floats:
        """Values of one objective on the scale."""
        with np.errstate(over="ignore"):
            scaled = (values / 2 - self._low[objective]) / self._spans[objective]
        return np.asarray(np.clip(scaled, -FARTHEST, FARTHEST))

    def table(self, values: Floats) -> Floats:
        """Values of all objectives on the scale, shape (n, objectives)."""
        return np.column_stack([self(column, goal) for goal, column in enumerate(values.T)])


def judges(
    features: Features,
    observed: Integers,
    values: Floats,
    candidates: Integers,
    known: Sequence[Floats | None],
    fitted: Sequence[Fitted | None],
) -> list[KnownObjective | ObjectiveModel]:
    """What is known or predicted of the candidates, one per objective.

    Args:
        features: Features of observed and candidates.
        observed: Indices of the observed, shape (n,).
        values: Their values on the scale, shape (n, objectives).
        candidates: Indices of the candidates, shape (m,).
        known: Exact values of the candidates, shape (m,); None where only an evaluation tells.
        fitted: Fits for the objectives that are not known; None where nothing could be learnt.
    """
    found: list[KnownObjective | ObjectiveModel] = []
    for objective, (exact, fit) in enumerate(zip(known, fitted, strict=True)):
        if exact is not None:
            found.append(KnownObjective(exact))
        elif fit is None:
            found.append(KnownObjective(np.full(len(candidates), float(np.median(values[:, objective])))))
        else:
            found.append(ObjectiveModel(fit, features, observed, values[:, objective], candidates))
    return found


def choose(
    models: Sequence[KnownObjective | ObjectiveModel], front: Floats, reference: Floats, success: Floats, count: int
) -> list[int]:
    """Indices of the chosen candidates, in the order of choice.

    Each choice is imagined to have turned out a little better than expected before the next is made, so that a batch
    spreads out over the front.

    Args:
        models: One per objective.
        front: Observed values on the scale, shape (n, objectives).
        reference: Reference point, shape (objectives,).
        success: Probability that the evaluation does not fail, shape (m,).
        count: Number of choices, at most m.
    """
    chosen: list[int] = []
    for _ in range(count):
        gains = expected_gain(front, reference, [model.shortfall() for model in models]) * success
        gains[chosen] = 0.0
        if not gains.max() > 0:  # the front is out of reach: learn where least is known
            gains = (np.sum([model.deviations for model in models], axis=0) + 1e-12) * success
        shares = np.round(gains / gains.max(), DIGITS)
        shares[chosen] = -1.0
        candidate = int(np.argmax(shares))
        chosen.append(candidate)
        front = np.vstack([front, [model.optimistic(candidate) for model in models]])
        for model in models:
            model.imagine(candidate)
    return chosen


def fit_success(features: Features, places: Integers, succeeded: Floats) -> Fitted | None:
    """A fit to 1 where the evaluation succeeded and 0 where it failed; None where all did or none."""
    return fit_objective(features, places, 1.0 - succeeded)


def success_probability(
    fitted: Fitted | None, features: Features, told: Integers, succeeded: Floats, candidates: Integers
) -> Floats:
    """Probability that the evaluation of a candidate does not fail, shape (m,), from LEAST_SUCCESS to 1.

    Args:
        fitted: Of ``fit_success``; None = 1 for all.
        features: Features of told and candidates.
        told: Indices of all that were evaluated, shape (n,).
        succeeded: 1 or 0 for each of them, shape (n,).
        candidates: Indices of the candidates, shape (m,).
    """
    if fitted is None or succeeded.all():
        return np.ones(len(candidates))
    model = ObjectiveModel(fitted, features, told, 1.0 - succeeded, candidates)
    return np.clip(1.0 - model.medians(), LEAST_SUCCESS, 1.0)

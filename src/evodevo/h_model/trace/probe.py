"""Linear probes of the routing: how well a fact can be read from it, with the controls that give it a meaning.

An untrained H-Model's routes already give the language of a sentence (.96 on six languages, a
byte histogram .98). What counts is the gain over the same model untrained, and over languages that share a script.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from evodevo.errors import DataError, UsageError
from evodevo.h_model.trace.spec import RoutingTrace
from evodevo.h_model.trace.specialisation import known_samples, value_name
from evodevo.randomness import generator, integer_seed

FOLDS = 5
RESAMPLES = 2000


@dataclass(frozen=True)
class LinearProbe:
    """One cross-validated probe.

    Attributes:
        accuracy: Share of the samples that are classified correctly by a probe that was not fitted on them, 0 to 1.
        right: Whether each sample is classified correctly, (samples,).
    """

    accuracy: float
    right: NDArray[np.bool_]


@dataclass(frozen=True)
class Gain:
    """A difference of two accuracies on the same samples, with a 95 % interval.

    The interval resamples samples (paired bootstrap, percentiles). It does not include the spread over training seeds.
    """

    value: float
    low: float
    high: float


def linear_probe(features: NDArray[Any], labels: NDArray[np.int64], folds: int = FOLDS, seed: int = 0) -> LinearProbe:
    """Accuracy of a logistic regression on standardised features, by stratified cross-validation.

    Args:
        features: Features, (samples, R).
        labels: Class of each sample, (samples,); fewer folds where a class has fewer samples than ``folds``.

    Raises:
        DataError: Fewer than two classes, or a class with one sample.
    """
    values, counts = np.unique(labels, return_counts=True)
    if len(values) < 2 or counts.min() < 2:
        raise DataError(
            f"a probe needs two classes with two samples each; there are {len(values)} classes, the smallest of "
            f"{counts.min(initial=0)}; trace more samples"
        )
    splits = StratifiedKFold(min(folds, int(counts.min())), shuffle=True, random_state=integer_seed(seed) % 2**32)
    right = np.zeros(len(labels), dtype=np.bool_)
    given = np.asarray(features, dtype=np.float64)
    for train, test in splits.split(given, labels):
        # Scaled within each fold, so that the scale holds nothing of the test samples.
        model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=3000, tol=1e-3))
        right[test] = model.fit(given[train], labels[train]).predict(given[test]) == labels[test]
    return LinearProbe(float(right.mean()), right)


def paired_gain(first: LinearProbe, other: LinearProbe, resamples: int = RESAMPLES, seed: int = 0) -> Gain:
    """Difference in accuracy between ``first`` and ``other`` on the same samples."""
    if first.right.shape != other.right.shape:
        raise UsageError(f"a gain compares the same samples; there are {len(first.right)} and {len(other.right)}")
    difference = first.right.astype(np.float64) - other.right
    rng = generator(seed, "gain")
    means = [difference[rng.integers(0, len(difference), len(difference))].mean() for _ in range(resamples)]
    low, high = np.percentile(means, [2.5, 97.5])
    return Gain(float(difference.mean()), float(low), float(high))


@dataclass(frozen=True)
class RouteProbe:
    """The accuracy with which one fact is predicted from the routes of some samples.

    Attributes:
        fact: Name of the fact; within a script, "language, latin only".
        classes: Values that occur.
        samples: Number of samples.
        majority: Accuracy of the most frequent value as a constant answer.
        trained: Probe of the trained model's routes.
        shuffled: Probe with shuffled labels; near ``majority`` unless the probe leaks.
        untrained: Probe of the routes of the same model before training, on the same samples.
        gain: Gain of trained over untrained: the number to quote.
        histogram: Probe of the counts of tokens (or pixel values) in the input.
        scripts: Probes among values that share a script (or another group) only, by its name.
    """

    fact: str
    classes: tuple[str, ...]
    samples: int
    majority: float
    trained: LinearProbe
    shuffled: LinearProbe
    untrained: LinearProbe | None = None
    gain: Gain | None = None
    histogram: LinearProbe | None = None
    scripts: Mapping[str, RouteProbe] = field(default_factory=dict)

    def rows(self) -> list[tuple[str, float]]:
        """(input of the probe, accuracy), controls last."""
        rows = [("routes, trained", self.trained.accuracy)]
        if self.untrained:
            rows.append(("routes, untrained", self.untrained.accuracy))
        if self.histogram:
            rows.append(("input histogram", self.histogram.accuracy))
        return [*rows, ("routes, shuffled labels", self.shuffled.accuracy), ("most frequent value", self.majority)]


def route_probe(
    trace: RoutingTrace,
    fact: str,
    *,
    untrained: RoutingTrace | None = None,
    histograms: NDArray[Any] | None = None,
    scripts: Mapping[str, str] | None = None,
    folds: int = FOLDS,
    seed: int = 0,
) -> RouteProbe:
    """Probe a fact from the routes, with all controls that are available.

    Args:
        trace: Trace of the trained model.
        fact: Name of the fact, one of ``trace.facts``; samples where it is unknown are left out.
        untrained: Trace of the same model before training on the same samples, in the same order.
        histograms: Counts of each sample's input, (B, V).
        scripts: Script by value of the fact ("de" -> "latin"); those with two values or more are also probed alone.

    Raises:
        UsageError: No such fact, or controls for other samples.
        DataError: Too few samples, see ``linear_probe``.
    """
    counts_of = {
        "untrained trace": None if untrained is None else untrained.count,
        "histograms": None if histograms is None else len(histograms),
    }
    for name, count in counts_of.items():
        if count is not None and count != trace.count:
            raise UsageError(f"the {name} has {count} samples, the trace {trace.count}; give the same samples")
    places = known_samples(trace, fact)
    labels = trace.facts[fact][places]
    routes = trace.routes()[places]
    before = None if untrained is None else untrained.routes()[places]
    counts = None if histograms is None else np.asarray(histograms)[places]
    names = {int(value): value_name(trace, fact, int(value)) for value in np.unique(labels)}
    whole = _probe(fact, names, labels, routes, before, counts, folds, seed)
    parts: dict[str, RouteProbe] = {}
    for script in sorted(set((scripts or {}).values())):
        same = [value for value, name in names.items() if (scripts or {}).get(name) == script]
        inside = np.isin(labels, same)
        if len(same) >= 2 and len(same) < len(names):
            kept = {value: names[value] for value in same}
            earlier, counted = (None if given is None else given[inside] for given in (before, counts))
            words = f"{fact}, {script} only"
            parts[script] = _probe(words, kept, labels[inside], routes[inside], earlier, counted, folds, seed)
    return replace(whole, scripts=parts)


def _probe(
    fact: str,
    names: Mapping[int, str],
    labels: NDArray[np.int64],
    routes: NDArray[Any],
    before: NDArray[Any] | None,
    histograms: NDArray[Any] | None,
    folds: int,
    seed: int,
) -> RouteProbe:
    trained = linear_probe(routes, labels, folds, seed)
    untrained = None if before is None else linear_probe(before, labels, folds, seed)
    return RouteProbe(
        fact=fact,
        classes=tuple(names.values()),
        samples=len(labels),
        majority=float(np.unique(labels, return_counts=True)[1].max() / len(labels)),
        trained=trained,
        shuffled=linear_probe(routes, generator(seed, "shuffled", fact).permutation(labels), folds, seed),
        untrained=untrained,
        gain=None if untrained is None else paired_gain(trained, untrained, seed=seed),
        histogram=None if histograms is None else linear_probe(histograms, labels, folds, seed),
    )

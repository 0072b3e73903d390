"""Clusters of routes: how many different architectures a model uses (paper figures 5 and 6)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score, silhouette_score

from evodevo.h_model.trace.measures import Doubles
from evodevo.h_model.trace.spec import RoutingTrace
from evodevo.h_model.trace.specialisation import known_samples
from evodevo.randomness import integer_seed

NO_STRUCTURE = 0.25
"""A mean silhouette up to this shows "no substantial structure" (Kaufman and Rousseeuw 1990)."""
SAME = 0.01
"""Routes whose standard deviation (root mean square over connections) is smaller are one architecture."""
_JUDGED = 2000  # samples that a silhouette is computed on: it needs all their distances


@dataclass(frozen=True)
class Patterns:
    """Clusters of routes, the largest first.

    Attributes:
        labels: Cluster of each sample, (B,).
        shares: Share of the samples in each cluster, (k,).
        centres: Mean routes, (k, R), as ``RoutingTrace.routes``.
        silhouettes: Mean silhouette, in [-1, 1], by number of clusters tried.
    """

    labels: NDArray[np.int64]
    shares: Doubles
    centres: Doubles
    silhouettes: Mapping[int, float] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """Number of clusters; 1 is a stable architecture."""
        return len(self.shares)


def routing_patterns(trace: RoutingTrace, most: int = 8, seed: int = 0) -> Patterns:
    """Clusters of the routes by k-means, k from 2 to ``most`` by the largest mean silhouette.

    One pattern where the routes hardly differ (``SAME``) or no k shows a structure (``NO_STRUCTURE``).
    """
    routes = trace.routes().astype(np.float64)
    alike = not len(routes) or float(np.sqrt(routes.var(axis=0).mean())) < SAME
    distinct = 1 if alike else len(np.unique(routes, axis=0))
    clusterings: dict[int, NDArray[np.int64]] = {1: np.zeros(len(routes), np.int64)}
    silhouettes: dict[int, float] = {}
    # A silhouette needs fewer clusters than samples, k-means no more than distinct points.
    for count in range(2, min(most, distinct, len(routes) - 1) + 1):
        state = integer_seed(seed, "patterns", count) % 2**32
        clusterings[count] = KMeans(count, n_init=10, random_state=state).fit_predict(routes).astype(np.int64)
        judged = min(_JUDGED, len(routes))
        silhouettes[count] = float(silhouette_score(routes, clusterings[count], sample_size=judged, random_state=state))
    best = max(silhouettes, key=lambda count: (silhouettes[count], -count), default=1)
    labels = clusterings[best if silhouettes.get(best, -1.0) > NO_STRUCTURE else 1]
    counts = np.bincount(labels, minlength=1)
    order = np.argsort(-counts, kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    labels = rank[labels]
    centres = [routes[labels == place].mean(axis=0) for place in range(len(order) if len(routes) else 0)]
    shape = (len(centres), routes.shape[1])
    return Patterns(
        labels, counts[order][: len(centres)] / max(len(routes), 1), np.reshape(centres, shape), silhouettes
    )


def agreement(patterns: Patterns, trace: RoutingTrace, fact: str) -> float:
    """Adjusted Rand index of the clusters with a fact, over samples where it is known: 0 by chance, 1 the same.

    Raises:
        UsageError: The trace holds no such fact, or no sample has it.
    """
    places = known_samples(trace, fact)
    return float(adjusted_rand_score(trace.facts[fact][places], patterns.labels[places]))

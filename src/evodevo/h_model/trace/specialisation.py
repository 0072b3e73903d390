"""Specialisation of layers: activity per class, and mutual information of routes with a fact."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import adjusted_mutual_info_score

from evodevo.errors import UsageError, unknown_name
from evodevo.h_model.trace.measures import HARD, Doubles, activity, hard_paths, hard_routes
from evodevo.h_model.trace.spec import RoutingTrace
from evodevo.randomness import generator


def known_samples(trace: RoutingTrace, fact: str) -> NDArray[np.int64]:
    """Indices of the samples whose value of ``fact`` is known.

    Raises:
        UsageError: The trace holds no such fact, or no sample has it.
    """
    if fact not in trace.facts:
        raise unknown_name("fact", fact, sorted(trace.facts))
    places = np.flatnonzero(trace.facts[fact] >= 0)
    if not len(places):
        raise UsageError(f"no sample of this trace has a value of {fact!r}; trace more samples or another fact")
    return places


def value_name(trace: RoutingTrace, fact: str, value: int) -> str:
    """The name of a value, or its number where it has none."""
    names = trace.names.get(fact, ())
    return names[value] if value < len(names) else str(value)


@dataclass(frozen=True)
class ClassActivity:
    """Activity of each layer for the samples of each class.

    Attributes:
        names: Names of the classes that occur, in the order of their values.
        counts: Number of samples of each class.
        mean: Mean of ``measures.activity``, (C, T, H).
    """

    names: tuple[str, ...]
    counts: tuple[int, ...]
    mean: Doubles

    def specialisation(self) -> Doubles:
        """(C, H): the share of each layer's activity that goes to each class, all classes counted alike.

        P_ch = a_ch / sum_c a_ch with a the mean activity over iterations: 1 / C for a layer that serves all alike,
        1 for one that serves this class only; nan for a layer that is never active.
        """
        active = self.mean.mean(axis=1) if self.mean.shape[1] else self.mean.sum(axis=1)
        total = np.broadcast_to(active.sum(axis=0), active.shape)
        shares: Doubles = np.divide(active, total, out=np.full(active.shape, np.nan), where=total > 0)
        return shares

    def index(self) -> Doubles:
        """(H,): 1 - entropy of P_.h / ln C; 0 for a layer that serves all classes alike, 1 for one that serves one."""
        shares = self.specialisation()
        classes = len(self.names)
        if classes < 2:
            return np.zeros(shares.shape[1])
        logs = np.log(shares, where=shares > 0, out=np.zeros_like(shares))
        index: Doubles = 1.0 + (shares * logs).sum(axis=0) / np.log(classes)
        return index


def class_activity(trace: RoutingTrace, fact: str) -> ClassActivity:
    """Mean activity per value of a fact. Raises as ``known_samples``."""
    places = known_samples(trace, fact)
    values, active = trace.facts[fact][places], activity(trace)[places]
    classes = np.unique(values)
    mean = np.stack([active[values == value].mean(axis=0) for value in classes])
    names = tuple(value_name(trace, fact, int(value)) for value in classes)
    return ClassActivity(names, tuple(int((values == value).sum()) for value in classes), mean)


@dataclass(frozen=True)
class RouteInformation:
    """Information of hard routes (c above a threshold) about a fact.

    Attributes:
        first: Mutual information in nats of each connection of the input step with the fact, (I, N).
        connections: Mutual information in nats of each connection of each iteration, (T, H, N).
        chance: Largest value of any connection with the fact shuffled, in nats, mean of several shuffles; what does not
            exceed it means nothing.
        ceiling: Entropy of the fact in nats; no connection has more information (nor more than ln 2).
        paths: Adjusted mutual information of whole hard paths with the fact; 0 by chance, 1 where they agree.
    """

    first: Doubles
    connections: Doubles
    chance: float
    ceiling: float
    paths: float


def route_information(
    trace: RoutingTrace, fact: str, threshold: float = HARD, shuffles: int = 20, seed: int = 0
) -> RouteInformation:
    """I(r; f) = sum p(r, f) ln (p(r, f) / (p(r) p(f))) of every connection r. Raises as ``known_samples``."""
    chosen = trace.select(known_samples(trace, fact))
    hard, values = hard_routes(chosen, threshold), chosen.facts[fact]
    _, labels = np.unique(values, return_inverse=True)
    information = _mutual_information(hard, labels)
    rng = generator(seed, "routing", fact)
    shuffled = [_mutual_information(hard, rng.permutation(labels)).max(initial=0.0) for _ in range(shuffles)]
    share = np.bincount(labels) / len(labels)
    size = chosen.first[0].size
    return RouteInformation(
        information[:size].reshape(chosen.first.shape[1:]),
        information[size:].reshape(chosen.connections.shape[1:]),
        float(np.mean(shuffled)) if shuffled else 0.0,
        float(-(share * np.log(share)).sum()),
        float(adjusted_mutual_info_score(labels, hard_paths(chosen, threshold).labels)),
    )


def _mutual_information(hard: NDArray[np.bool_], labels: NDArray[np.int64]) -> Doubles:
    """Mutual information of each column of ``hard`` (B, R) with ``labels`` (B,), 0 to C - 1, in nats. (R,)."""
    share = np.bincount(labels) / len(labels)  # (C,)
    on = np.stack([hard[labels == value].sum(axis=0) for value in range(len(share))]) / len(labels)  # p(r = 1, f): C, R
    total = np.zeros(hard.shape[1])
    for joint in (on, share[:, None] - on):
        expected = joint.sum(axis=0) * share[:, None]
        inside = joint > 1e-12
        ratio = np.divide(joint, expected, out=np.ones_like(joint), where=inside)
        total += (joint * np.log(ratio)).sum(axis=0)
    return np.maximum(total, 0.0)

"""Measures that summarise a routing trace: self-loops, entropy, paths, depth, activity, drift.

Legend as in ``h_model.trace.spec``: B samples, T iterations, I inputs, H hidden layers, O outputs, N = H + O
targets, c connection weights. What is undefined (the entropy of a layer without connections) is nan.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evodevo.errors import UsageError
from evodevo.h_model.trace.spec import RoutingTrace

Doubles = NDArray[np.float64]
HARD = 0.5
"""Weight above which a connection counts as hard: the middle of a sigmoid."""


def activity(trace: RoutingTrace) -> Doubles:
    """Activity of each layer: min(1, inflow), the inflow gate; 0 where it was not called. (B, T, H)."""
    inflow = trace.inflow[:, : trace.iterations, : len(trace.hidden)].astype(np.float64)
    return np.minimum(inflow, 1.0) * trace.called


def self_loops(trace: RoutingTrace) -> Doubles:
    """Share of each layer's connections to hidden layers that lead to itself ("survival instinct"). (H,).

    sum c_jj / sum_k c_jk over samples and iterations; the last iteration, which reaches no hidden layer, adds nothing.
    """
    hidden = len(trace.hidden)
    sent = trace.connections[..., :hidden].sum(axis=(0, 1), dtype=np.float64)
    return _share(np.diagonal(sent).copy(), sent.sum(axis=1))


def route_entropy(trace: RoutingTrace) -> Doubles:
    """Entropy of a source's connections, in nats, after the input step (0) and each iteration. (T + 1,).

    For each source -sum_k p_k ln p_k with p_k = c_k / sum c; then the mean over sources with any connection and
    samples. A source with one target only has 0, one with equal weights to all ln N. The last iteration only reaches
    outputs,
    so that its entropy is at most ln O.
    """
    steps = [trace.first, *(trace.connections[:, step] for step in range(trace.iterations))]
    return np.array([_mean_entropy(weights.astype(np.float64)) for weights in steps])


def _mean_entropy(weights: Doubles) -> float:
    """Mean entropy of sources' weights (B, sources, N), in nats."""
    total = weights.sum(axis=-1, keepdims=True)
    connected = total[..., 0] > 0
    if not connected.any():
        return float("nan")
    chance = weights[connected] / total[connected]
    logs = np.log(chance, where=chance > 0, out=np.zeros_like(chance))
    return float(-(chance * logs).sum(axis=-1).mean())


@dataclass(frozen=True)
class Paths:
    """The hard paths (every connection above a threshold, or not) of a trace.

    Attributes:
        labels: Path of each sample, (B,); 0 is the most frequent.
        shares: Share of the samples on each path, (paths,), falling.
        effective: Exp of the entropy of the shares: 1 where all samples take one path, ``count`` where all are alike.
    """

    labels: NDArray[np.int64]
    shares: Doubles
    effective: float

    @property
    def count(self) -> int:
        """Number of distinct paths."""
        return len(self.shares)


def hard_routes(trace: RoutingTrace, threshold: float = HARD) -> NDArray[np.bool_]:
    """True where a connection is above the threshold: (B, I N + T H N)."""
    return trace.routes() > threshold


def hard_paths(trace: RoutingTrace, threshold: float = HARD) -> Paths:
    """The different architectures of the samples (paper 6.3: one is a stable architecture)."""
    if not trace.count:
        return Paths(np.zeros(0, np.int64), np.zeros(0), 0.0)
    _, labels, counts = np.unique(hard_routes(trace, threshold), axis=0, return_inverse=True, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    shares = counts[order] / trace.count
    return Paths(rank[labels.reshape(-1)].astype(np.int64), shares, float(np.exp(-(shares * np.log(shares)).sum())))


def output_mass(trace: RoutingTrace) -> Doubles:
    """Share of the outputs' input that comes from the input step (0) and from each iteration. (B, T + 1).

    Weights to all outputs, summed over sources, divided by their sum over time; a row of nan where there are none.
    """
    hidden = len(trace.hidden)
    first = trace.first[..., hidden:].sum(axis=(1, 2), dtype=np.float64)[:, None]
    later = trace.connections[..., hidden:].sum(axis=(2, 3), dtype=np.float64)
    mass = np.concatenate([first, later], axis=1)
    return _share(mass, mass.sum(axis=1, keepdims=True))


def depth_used(trace: RoutingTrace) -> Doubles:
    """Mean iteration from which the outputs receive, weighted by ``output_mass``. (B,), in [0, T]."""
    depth: Doubles = output_mass(trace) @ np.arange(trace.iterations + 1, dtype=np.float64)
    return depth


@dataclass(frozen=True)
class Drift:
    """Change of the routes of the same samples from checkpoint to checkpoint; mean absolute differences of c.

    Attributes:
        step: Change between each checkpoint and the one before it, (K,); 0 at the first.
        to_last: Change between each checkpoint and the last, (K,).
    """

    step: Doubles
    to_last: Doubles


def route_drift(traces: Sequence[RoutingTrace]) -> Drift:
    """The drift over checkpoints, in order.

    Raises:
        UsageError: No trace, or traces of different models or numbers of samples.
    """
    if not traces:
        raise UsageError("drift needs the traces of at least one checkpoint; none was given")
    routes = [trace.routes().astype(np.float64) for trace in traces]
    shapes = sorted({given.shape for given in routes})
    if len(shapes) > 1:
        raise UsageError(
            f"drift compares the same samples and nodes at every checkpoint; the traces have the shapes {shapes}"
        )
    step = [0.0, *(_distance(now, before) for before, now in itertools.pairwise(routes))]
    return Drift(np.array(step), np.array([_distance(given, routes[-1]) for given in routes]))


def _distance(first: Doubles, other: Doubles) -> float:
    return float(np.abs(first - other).mean()) if first.size else 0.0


def _share(part: NDArray[Any], whole: NDArray[Any]) -> Doubles:
    """``part / whole``, nan where the whole is 0."""
    whole = np.broadcast_to(whole, part.shape)
    shares: Doubles = np.divide(part, whole, out=np.full(part.shape, np.nan), where=whole > 0)
    return shares

"""The data of a page on routing: a trace and the numbers that sum it up, as plain data.

``h_model.trace.summary`` works them out. Unknown parts are left out of the page.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from evodevo.h_model.trace.spec import RoutingTrace

Doubles = NDArray[np.float64]


@dataclass(frozen=True)
class ClassRouting:
    """The routing of the samples of one class.

    Attributes:
        name: name of the class.
        places: indices of its samples in the trace.
        activity: (T, H) mean activity, min(1, inflow) of layers that were called.
        shares: (H,) its share of each layer's activity, all classes counted alike; nan for layers never active.
        depth: mean iteration of the messages to outputs.
    """

    name: str
    places: NDArray[np.int64]
    activity: Doubles
    shares: Doubles
    depth: float


@dataclass(frozen=True)
class PatternSummary:
    """Clusters of routes, the largest first.

    Attributes:
        labels: (B,) cluster of each sample.
        shares: share of the samples in each cluster, 0 to 1.
        silhouettes: number of clusters tried -> mean silhouette.
        agreement: adjusted Rand index with the classes; None without classes.
    """

    labels: NDArray[np.int64]
    shares: Sequence[float]
    silhouettes: Mapping[int, float] = field(default_factory=dict)
    agreement: float | None = None


@dataclass(frozen=True)
class ChainSummary:
    """The feed-forward stack that the routing is most like.

    Attributes:
        order: names of the layers, first to last.
        likeness: cosine with that stack; 1 is a perfect chain.
        uniform: likeness of a model with equal connections.
        exact: whether all orders were searched.
    """

    order: Sequence[str]
    likeness: float
    uniform: float
    exact: bool = True


@dataclass(frozen=True)
class ClassInformation:
    """Mutual information of hard connections with the classes, in nats.

    Attributes:
        strongest: (connection in words, nats), falling.
        chance: largest value of any connection with shuffled classes; what does not exceed it means nothing.
        ceiling: entropy of the classes.
        paths: adjusted mutual information of whole hard paths.
    """

    strongest: Sequence[tuple[str, float]]
    chance: float
    ceiling: float
    paths: float


@dataclass(frozen=True)
class ProbeSummary:
    """The accuracy with which a linear probe predicts a fact from the routes.

    Attributes:
        fact: the predicted fact, in words.
        samples, classes: number of samples and of classes.
        rows: (input of the probe, accuracy).
        gain: gain over the untrained model: value and 95 % interval; None where it was not measured.
    """

    fact: str
    samples: int
    classes: int
    rows: Sequence[tuple[str, float]]
    gain: tuple[float, float, float] | None = None


@dataclass(frozen=True)
class DriftPoint:
    """Routes at one checkpoint: mean absolute change since the one before, and to the last one."""

    step: float
    change: float
    to_last: float


@dataclass(frozen=True)
class RoutingReport:
    """The data of the page.

    Attributes:
        title, subtitle: description of the traced model.
        trace: trace of all samples.
        fact: the fact whose values are the classes; empty without classes.
        activity: (T, H) mean over all samples.
        self_loops: (H,) share of each layer's messages to hidden layers that goes to itself.
        entropy: (T + 1,) entropy of the targets of sources, in nats, after the input step and each iteration.
        mass: (T + 1,) mean share of the messages to outputs, by iteration.
        depth: (B,) mean iteration of the messages to outputs.
        paths: number of distinct hard paths; ``effective_paths`` counts rare ones less; ``main_path`` is the share of
            the first.
        gradient_norms: (H,) norm of the loss' gradient by each layer's parameters.
        class_index: (H,) 0 for a layer that serves all classes alike, 1 for one that serves one.
        notes: remarks at the top, one paragraph each.
    """

    title: str
    trace: RoutingTrace
    activity: Doubles
    self_loops: Doubles
    entropy: Doubles
    mass: Doubles
    depth: Doubles
    paths: int
    effective_paths: float
    main_path: float
    chain: ChainSummary
    patterns: PatternSummary
    subtitle: str = ""
    fact: str = ""
    classes: Sequence[ClassRouting] = ()
    class_index: Doubles | None = None
    gradient_norms: Doubles | None = None
    information: ClassInformation | None = None
    probes: Sequence[ProbeSummary] = ()
    drift: Sequence[DriftPoint] = ()
    notes: Sequence[str] = ()

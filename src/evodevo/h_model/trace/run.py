"""Routing of a trained H-Model in a store: for samples of its task, or for a user's own input."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from evodevo.errors import UsageError
from evodevo.h_model.report.data import RoutingReport
from evodevo.h_model.trace.spec import RoutingTrace, join
from evodevo.runs.own_inputs import own_sample
from evodevo.tasks.base import SampleTask, Split

if TYPE_CHECKING:
    from evodevo.h_model.model import HModel
    from evodevo.h_model.trace.probe import RouteProbe
    from evodevo.runs.archive import Individual

_AT_ONCE = 64
SCRIPT = "script"
"""Name of the fact that groups the values of another one by alphabet."""


@dataclass(frozen=True)
class Traced:
    """A trace and the origin of its samples.

    Attributes:
        trace: Routing of the samples.
        split: Split of the task; None for a user's own input.
        places: Indices of the samples in the split.
    """

    trace: RoutingTrace
    split: Split | None = None
    places: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))

    @property
    def default_fact(self) -> str:
        """The fact that classifies samples where none is named: the first one with two values or more."""
        for name, values in self.trace.facts.items():
            if len(np.unique(values[values >= 0])) > 1:
                return name
        return ""


class Tracer:
    """Traces one individual.

    Args:
        individual: Individual with a trained H-Model.
        cache_folder: Folder of prepared data; None is the user's cache.

    Raises:
        UsageError: It is no H-Model and has no routing.
        NotFoundError: No weights were kept.
    """

    def __init__(self, individual: Individual, cache_folder: Path | None = None) -> None:
        from evodevo.h_model.model import as_h_model
        from evodevo.networks.saved import load_network
        from evodevo.training.precision import decide

        if individual.run.slice.name == "backbone":
            raise UsageError(f"{individual.id} is a backbone: its layers have a fixed order. Trace an H-Model.")
        network, self._specification = load_network(individual.run.archive.store.blobs, individual.weights())
        model = as_h_model(network)
        if model is None:
            raise UsageError(network.untraced.format(name=individual.id, title=individual.title))
        self.individual = individual
        self.model: HModel = model
        self._precision = decide("cpu")
        self._cache_folder = cache_folder

    @cached_property
    def task(self) -> SampleTask:
        """The task of its training. Raises DataError where the data are gone."""
        from evodevo.networks.saved import reopen_task

        return reopen_task(self._specification, self._cache_folder)

    def samples(self, split: Split = "validation", count: int = 200) -> Traced:
        """The routing of samples of a split, spread evenly over it.

        Raises:
            UsageError: ``count`` is below 1.
        """
        from evodevo.experiments.measure import places

        if count < 1:
            raise UsageError(f"{count} samples are wanted; trace at least 1.")
        chosen = places(self.task, split, count)
        return Traced(self._trace(self.model, split, chosen), split, chosen)

    def _trace(self, model: HModel, split: Split, places: NDArray[np.int64]) -> RoutingTrace:
        from evodevo.h_model.trace.record import record_trace

        parts = np.array_split(places, max(1, -(-len(places) // _AT_ONCE)))
        return join([record_trace(model, self.task, split, part, self._precision) for part in parts])

    def given(self, values: Mapping[str, str]) -> Traced:
        """The routing of a user's own sample. Raises as ``own_inputs.own_sample``.

        Args:
            values: File, text or numbers, by input.
        """
        batch = own_sample(self.model.input_specs, values, self.task.encode, missing=self.model.structure.missing)
        placed = cast("dict[str, Any]", self._precision.place(batch))
        return Traced(replace(self.model.trace(placed), samples=(dict(values),)))

    def report(self, traced: Traced, *, fact: str = "", probe: str = "", seed: int = 0) -> RoutingReport:
        """All measures of a trace, ready for a page.

        Args:
            traced: Result of ``samples`` or ``given``.
            fact: Fact that classifies the samples; none where empty.
            probe: Fact that a linear probe reads from the routes, beside its controls; none where empty.
            seed: Seed of clusters, shuffles and folds.

        Raises:
            UsageError: An unknown fact, or a probe of a user's own input.
            DataError: Too few samples for a probe.
        """
        from evodevo.h_model.trace.summary import routing_report

        run, split = self.individual.run, traced.split
        if probe and split is None:
            raise UsageError("a probe needs many samples of which a fact is known; leave --input out.")
        return routing_report(
            traced.trace,
            f"Routing of {self.individual.id}",
            fact=fact,
            subtitle=f"{self.individual.title} · {run.recipe} · run {run.id}",
            gradient_norms=None if split is None else self._gradient_norms(split, traced.places[:_AT_ONCE]),
            probes=[self._probe(traced.trace, split, traced.places, probe, seed)] if probe and split else [],
            checkpoints=self._course(),
            seed=seed,
        )

    def _probe(self, trace: RoutingTrace, split: Split, places: NDArray[np.int64], fact: str, seed: int) -> RouteProbe:
        from evodevo.h_model.network import HModelNetwork
        from evodevo.h_model.trace.diagnose import with_random_routers
        from evodevo.h_model.trace.histograms import input_histograms
        from evodevo.h_model.trace.probe import route_probe
        from evodevo.networks.build import build_network

        network = HModelNetwork(structure=self.model.structure)
        first_seed = self.individual.run.evaluation_seed(0)
        fresh = build_network(network, self.model.input_specs, self.model.output_specs, first_seed)
        return route_probe(
            trace,
            fact,
            untrained=self._trace(with_random_routers(fresh, seed=first_seed).eval(), split, places),
            histograms=input_histograms(self.model.input_specs, self.task.fetch(split, places)),
            scripts=_scripts(trace, fact),
            seed=seed,
        )

    def _gradient_norms(self, split: Split, places: NDArray[np.int64]) -> NDArray[np.float64]:
        """Norm of the loss' gradient by each hidden layer's parameters, on these samples; 0 where there is none."""
        batch = cast("dict[str, Any]", self._precision.place(self.task.fetch(split, places)))
        self.model.zero_grad(set_to_none=True)
        loss = self.model.loss(batch)
        if loss.requires_grad:
            loss.backward()  # type: ignore[no-untyped-call]
        squares = [
            sum(float(p.grad.square().sum()) for p in layer.parameters() if p.grad is not None)
            for layer in self.model.core.layers
        ]
        self.model.zero_grad(set_to_none=True)
        return np.sqrt(np.array(squares, dtype=np.float64))

    def _course(self) -> list[tuple[int, RoutingTrace]]:
        """The routing of the same samples at every point of the training's curve, where it was kept."""
        from evodevo.h_model.trace.file import trace_from_bytes

        kept = self.individual.evaluation.blobs if self.individual.evaluation else {}
        steps = sorted(int(role.removeprefix("course/")) for role in kept if role.startswith("course/"))
        blobs = self.individual.run.archive.store.blobs
        return [(step, trace_from_bytes(blobs.get(kept[f"course/{step}"]))) for step in steps]


def _scripts(trace: RoutingTrace, fact: str) -> dict[str, str]:
    """Script by value of a fact, where the samples have both."""
    if SCRIPT not in trace.facts or fact not in trace.facts or fact == SCRIPT:
        return {}
    names, scripts = trace.names.get(fact, ()), trace.names.get(SCRIPT, ())
    pairs = set(zip(trace.facts[fact].tolist(), trace.facts[SCRIPT].tolist(), strict=True))
    return {names[value]: scripts[script] for value, script in pairs if value >= 0 and script >= 0}

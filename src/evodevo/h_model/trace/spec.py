"""The routing trace: connections of an H-Model's forward passes as plain arrays, for pictures, probes and tables."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class RoutingTrace:
    """Every connection of every iteration for chosen samples.

    Decisions that a causal model makes per position are averaged over the real positions of a sample.

    Attributes:
        inputs, hidden, outputs: Names of the nodes.
        kinds: Kind of each hidden layer ("transformer", "convolution", ...).
        first: Weights c of the input step, (B, I, N); targets are hidden layers, then outputs.
        connections: Weights c of each iteration, (B, T, H, N), after gates, skipping and halting; those of a layer that
            was not called are 0. In the last iteration hidden targets are 0: no iteration follows that would read them.
        inflow: Sum of c into each target after the input step and each iteration, (B, T + 1, N).
        norms: Mean Euclidean norm of each layer's message over real positions, (B, T, H).
        called: Whether the layer was run for the sample, (B, T, H).
        steps: Number of iterations until the sample halted, (B,); T where it did not.
        facts: Integer values (B,) of known properties of the samples, by name ("language", "answer"); -1 unknown.
        names: Names of a fact's values, in order, by fact.
        samples: Texts for people, by input or output, one mapping per sample.
    """

    inputs: tuple[str, ...]
    hidden: tuple[str, ...]
    outputs: tuple[str, ...]
    kinds: tuple[str, ...]
    first: Floats
    connections: Floats
    inflow: Floats
    norms: Floats
    called: NDArray[np.bool_]
    steps: NDArray[np.int64]
    facts: Mapping[str, NDArray[np.int64]] = field(default_factory=dict)
    names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    samples: tuple[Mapping[str, str], ...] = ()

    @property
    def count(self) -> int:
        """Number of samples, B."""
        return int(self.connections.shape[0])

    @property
    def iterations(self) -> int:
        """Number of iterations, T."""
        return int(self.connections.shape[1])

    def routes(self) -> Floats:
        """All weights of each sample as one vector: (B, I N + T H N)."""
        # The sizes are named, so that no sample at all is a case like any other.
        parts = (given.reshape(self.count, math.prod(given.shape[1:])) for given in (self.first, self.connections))
        return np.concatenate(tuple(parts), axis=1)

    def usable(self) -> Floats:
        """The weights of connections that can have an effect, as one vector per sample.

        Hidden layers do not read the last iteration, nor the input step where there is no iteration.
        """
        hidden = len(self.hidden)
        if self.iterations == 0:
            parts: tuple[Floats, ...] = (self.first[:, :, hidden:],)
        else:
            parts = (self.first, self.connections[:, :-1], self.connections[:, -1, :, hidden:])
        return np.concatenate([part.reshape(self.count, int(np.prod(part.shape[1:]))) for part in parts], axis=1)

    def select(self, chosen: NDArray[Any]) -> RoutingTrace:
        """The same trace for some samples (a boolean mask or indices)."""
        places = np.flatnonzero(chosen) if chosen.dtype == np.bool_ else chosen
        return RoutingTrace(
            self.inputs,
            self.hidden,
            self.outputs,
            self.kinds,
            self.first[places],
            self.connections[places],
            self.inflow[places],
            self.norms[places],
            self.called[places],
            self.steps[places],
            {name: values[places] for name, values in self.facts.items()},
            dict(self.names),
            tuple(self.samples[int(place)] for place in places) if self.samples else (),
        )


def join(traces: Sequence[RoutingTrace]) -> RoutingTrace:
    """The samples of several traces of one model, one after the other; facts and texts that all of them have."""
    first = traces[0]
    names = ("first", "connections", "inflow", "norms", "called", "steps")
    arrays: dict[str, Any] = {name: np.concatenate([getattr(trace, name) for trace in traces]) for name in names}
    facts = [name for name in first.facts if all(name in trace.facts for trace in traces)]
    described = all(trace.samples for trace in traces)
    return replace(
        first,
        facts={name: np.concatenate([trace.facts[name] for trace in traces]) for name in facts},
        samples=tuple(sample for trace in traces for sample in trace.samples) if described else (),
        **arrays,
    )

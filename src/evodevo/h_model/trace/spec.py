"""What happened in forward passes of an H-Model, as plain arrays: for pictures, probes and tables."""

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
        inputs, hidden, outputs: names of the nodes.
        kinds: kind of each hidden layer ("transformer", "convolution", ...).
        first: (B, I, N) weights c of the input step; targets are hidden layers, then outputs.
        connections: (B, T, H, N) weights c of each iteration, after gates, skipping and halting; what a layer that
            was not called says is 0. In the last iteration hidden targets are 0: nobody would hear them.
        inflow: (B, T + 1, N) the sum of c into each target after the input step and each iteration.
        norms: (B, T, H) mean Euclidean norm of each layer's message over real positions.
        called: (B, T, H) whether the layer was run for the sample.
        steps: (B,) iterations until the sample halted; T where none did.
        facts: name -> (B,) integer values that are known of the samples ("language", "answer"), -1 unknown.
        names: fact -> its values in order.
        samples: one mapping per sample: input or output name -> text for people.
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
        """Samples B."""
        return int(self.connections.shape[0])

    @property
    def iterations(self) -> int:
        """T."""
        return int(self.connections.shape[1])

    def routes(self) -> Floats:
        """All weights of each sample as one vector: (B, I N + T H N)."""
        # The sizes are named, so that no sample at all is a case like any other.
        parts = (given.reshape(self.count, math.prod(given.shape[1:])) for given in (self.first, self.connections))
        return np.concatenate(tuple(parts), axis=1)

    def usable(self) -> Floats:
        """The weights of connections that somebody could hear, as one vector per sample.

        Hidden layers hear nothing of the last iteration, or of the input step where there is no iteration.
        """
        hidden = len(self.hidden)
        if self.iterations == 0:
            parts: tuple[Floats, ...] = (self.first[:, :, hidden:],)
        else:
            parts = (self.first, self.connections[:, :-1], self.connections[:, -1, :, hidden:])
        return np.concatenate([part.reshape(self.count, int(np.prod(part.shape[1:]))) for part in parts], axis=1)

    def select(self, chosen: NDArray[Any]) -> RoutingTrace:
        """The same trace of some samples (a boolean mask or places)."""
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
    """The samples of several traces of one model, one after the other; facts and words that all of them have."""
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

"""Made-up routing traces with known answers, for tests of pictures and of analysis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evodevo.h_model.trace.spec import RoutingTrace
from evodevo.randomness import generator

KINDS = ("transformer", "convolution", "lstm", "mlp", "liv", "pretrained", "h_model", "span")


def trace_of(
    first: NDArray[Any],
    connections: NDArray[Any],
    *,
    called: NDArray[np.bool_] | None = None,
    steps: NDArray[np.int64] | None = None,
    facts: Mapping[str, NDArray[np.int64]] | None = None,
    names: Mapping[str, tuple[str, ...]] | None = None,
    samples: Sequence[Mapping[str, str]] = (),
) -> RoutingTrace:
    """A consistent trace around given weights: hidden targets of the last iteration are set to 0, inflow follows.

    Args:
        first: (B, I, N) weights of the input step.
        connections: (B, T, H, N) weights of each iteration.
        called: (B, T, H); all where left out.
        steps: (B,); T where left out.
    """
    batch, iterations, hidden, targets = connections.shape
    weights = connections.astype(np.float32)
    if iterations:
        weights[:, -1, :, :hidden] = 0
    ran = np.ones((batch, iterations, hidden), np.bool_) if called is None else called
    weights = weights * ran[..., None]
    inflow = np.concatenate([first.sum(axis=1)[:, None], weights.sum(axis=2)], axis=1).astype(np.float32)
    return RoutingTrace(
        inputs=tuple(f"input {place}" for place in range(first.shape[1])),
        hidden=tuple(f"layer {place}" for place in range(hidden)),
        outputs=tuple(f"output {place}" for place in range(targets - hidden)),
        kinds=tuple(KINDS[place % len(KINDS)] for place in range(hidden)),
        first=first.astype(np.float32),
        connections=weights,
        inflow=inflow,
        norms=np.where(ran, 1.0, 0.0).astype(np.float32),
        called=ran,
        steps=np.full(batch, iterations, np.int64) if steps is None else steps,
        facts=dict(facts or {}),
        names=dict(names or {}),
        samples=tuple(samples),
    )


def random_trace(
    samples: int = 24, iterations: int = 4, hidden: int = 4, *, inputs: int = 1, outputs: int = 1, seed: int = 0
) -> RoutingTrace:
    """Uniform weights, without facts."""
    rng = generator(seed, "random trace")
    targets = hidden + outputs
    return trace_of(rng.random((samples, inputs, targets)), rng.random((samples, iterations, hidden, targets)))


def chain_trace(samples: int = 3, hidden: int = 4, order: Sequence[int] | None = None) -> RoutingTrace:
    """A feed-forward stack as routing: the input is connected to the first layer, each layer to the next, the last one
    to the output. In each of T = H iterations one layer is called.
    """
    path = list(order if order is not None else range(hidden))
    first = np.zeros((samples, 1, hidden + 1))
    first[:, 0, path[0]] = 1
    connections = np.zeros((samples, hidden, hidden, hidden + 1))
    called = np.zeros((samples, hidden, hidden), np.bool_)
    for step, layer in enumerate(path):
        connections[:, step, layer, path[step + 1] if step + 1 < hidden else hidden] = 1
        called[:, step, layer] = True
    return trace_of(first, connections, called=called)


def classes_trace(
    samples: int = 60, classes: Sequence[str] = ("de", "en", "uk"), *, noise: float = 0.02, seed: int = 0
) -> RoutingTrace:
    """Each class has a layer of its own in four iterations; ``noise`` is the standard deviation around its routes.

    The fact "language" holds the classes in turn. A third of the samples halts after three iterations.
    """
    rng = generator(seed, "classes trace")
    hidden, iterations = len(classes) + 1, 4
    values = np.arange(samples) % len(classes)
    first = np.full((samples, 2, hidden + 2), 0.05)
    connections = np.full((samples, iterations, hidden, hidden + 2), 0.03)
    for place, value in enumerate(values):
        first[place, 0, value] = 0.95
        first[place, 1, -2] = 0.4
        connections[place, :, value, value] = 0.6
        connections[place, :, value, hidden - 1] = 0.8
        connections[place, 1:, hidden - 1, hidden] = 0.9
        connections[place, 2:, hidden - 1, hidden + 1] = 0.7
    first = np.clip(first + noise * rng.standard_normal(first.shape), 0, 1)
    connections = np.clip(connections + noise * rng.standard_normal(connections.shape), 0, 1)
    steps = np.where(rng.random(samples) < 1 / 3, iterations - 1, iterations)
    called = np.arange(iterations)[None, :, None] < steps[:, None, None]
    called = np.broadcast_to(called, (samples, iterations, hidden)).copy()
    called[:, :, hidden - 2] &= values[:, None] == hidden - 2  # a layer that only its own class calls
    return trace_of(
        first,
        connections,
        called=called,
        steps=steps.astype(np.int64),
        facts={"language": values.astype(np.int64)},
        names={"language": tuple(classes)},
        samples=[
            {"input 0": f"sentence {place} in {classes[value]}", "output 0": classes[value]}
            for place, value in enumerate(values.tolist())
        ],
    )

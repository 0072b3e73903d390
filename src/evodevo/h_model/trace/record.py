"""Recording of a routing trace: runs a pass and turns its moments into plain arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from evodevo.h_model.core import StepTrace
from evodevo.h_model.parts import HModelParts
from evodevo.h_model.trace.spec import RoutingTrace
from evodevo.tasks.base import NO_TARGET, SampleTask, Split
from evodevo.training.precision import Precision


def record_trace(
    model: HModelParts, task: SampleTask, split: Split, places: NDArray[np.int64], precision: Precision
) -> RoutingTrace:
    """The routing of these samples, with what is known of them: groups, answers of one class, and their words."""
    batch = task.fetch(split, places)
    placed = precision.place(batch)
    assert isinstance(placed, dict), "the batch is a mapping"
    with precision.autocast():
        trace = model.trace(placed)
    facts = dict(task.groups(split, places))
    names = {name: tuple(task.group_names[name]) for name in facts}
    for spec in task.outputs:
        if spec.kind == "class" and spec.name not in facts:
            target = np.asarray(batch[f"{spec.name}/target"], dtype=np.int64)
            facts[spec.name] = np.where(target == NO_TARGET, -1, target)
            names[spec.name] = spec.names or tuple(str(number) for number in range(spec.size))
    samples = tuple(task.show(split, int(place)) for place in places)
    return replace(trace, facts=facts, names=names, samples=samples)


def trace_of(model: HModelParts, moments: Sequence[StepTrace], masks: Tensor | None, iterations: int) -> RoutingTrace:
    """The trace of a pass that has just been made.

    Args:
        model: the model of the pass, with its ``halting_counts``.
        moments: records of the pass, the input step first.
        masks: (B, I, S) of the messages, true at real positions; None where all are.
        iterations: T of the pass.
    """
    core = model.core
    count, hidden, outputs = moments[0].weights.shape[0], core.hidden_count, core.output_count
    total = max(iterations, 0)
    real = None if masks is None else masks.any(1)
    first = _mean_over_positions(moments[0].weights, real)
    if first.shape[-1] == outputs:
        first = torch.nn.functional.pad(first, (hidden, 0))
    connections = torch.zeros(count, total, hidden, hidden + outputs, dtype=torch.float32)
    inflow = torch.zeros(count, total + 1, hidden + outputs, dtype=torch.float32)
    norms = torch.zeros(count, total, hidden, dtype=torch.float32)
    called = torch.zeros(count, total, hidden, dtype=torch.bool)
    inflow[:, 0] = first.sum(1)
    for t, moment in enumerate(moments[1:]):
        rows = torch.arange(count) if moment.rows is None else moment.rows.cpu()
        here = None if real is None else real[rows.to(real.device)]
        assert moment.norms is not None
        assert moment.called is not None
        weights = _mean_over_positions(moment.weights, here)
        targets = slice(-weights.shape[-1], None)
        connections[rows, t, :, targets] = weights
        inflow[rows, t + 1, targets] = weights.sum(1)
        lengths = moment.norms.mean(-1) if here is None else _masked(moment.norms, here)
        norms[rows, t] = lengths.float().cpu()
        called[rows, t] = moment.called.cpu()
    return RoutingTrace(
        inputs=tuple(spec.name for spec in model.input_specs),
        hidden=tuple(f"{layer.kind}-{place}" for place, layer in enumerate(model.structure.hidden)),
        outputs=tuple(spec.name for spec in model.output_specs),
        kinds=tuple(layer.kind for layer in model.structure.hidden),
        first=first.numpy(),
        connections=connections.numpy(),
        inflow=inflow.numpy(),
        norms=norms.numpy(),
        called=called.numpy(),
        steps=model.halting_counts.numpy().astype(np.int64),
    )


def _mean_over_positions(weights: Tensor, real: Tensor | None) -> Tensor:
    """(B, P, K, N) -> (B, K, N) on the CPU."""
    if weights.shape[1] == 1:
        return weights[:, 0].float().cpu()
    if real is None:
        return weights.mean(1).float().cpu()
    share = real.to(weights.dtype)
    mean = (weights * share[:, :, None, None]).sum(1) / share.sum(1).clamp(min=1)[:, None, None]
    return mean.float().cpu()


def _masked(norms: Tensor, real: Tensor) -> Tensor:
    """(B, H, S) and (B, S) -> (B, H)."""
    share = real.to(norms.dtype).unsqueeze(1)
    return (norms * share).sum(-1) / share.sum(-1).clamp(min=1)

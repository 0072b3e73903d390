"""Recording of a routing trace: runs a pass and turns its moments into plain arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from evodevo.h_model.core import Moment
from evodevo.h_model.trace.spec import RoutingTrace

if TYPE_CHECKING:
    from evodevo.h_model.model import HModel
    from evodevo.networks.base import Batch


@torch.no_grad()
def trace(model: HModel, batch: Batch) -> RoutingTrace:
    """See ``HModel.trace``; the model keeps its mode."""
    was_training = model.training
    model.eval()
    messages = model.inputs(batch)
    moments: list[Moment] = []
    final = model._final(messages.values, messages.masks, messages.places, moments)
    model.train(was_training)
    masks, core = messages.masks, model.core
    count, hidden, outputs = messages.values.shape[0], core.hidden_count, core.output_count
    total = max(final.flow.total, 0)
    real = None if masks is None else masks.any(1)
    first = _mean_over_positions(moments[0].weights, real)
    if first.shape[-1] == outputs:
        first = torch.nn.functional.pad(first, (hidden, 0))
    connections = torch.zeros(count, total, hidden, hidden + outputs)
    inflow = torch.zeros(count, total + 1, hidden + outputs)
    norms = torch.zeros(count, total, hidden)
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

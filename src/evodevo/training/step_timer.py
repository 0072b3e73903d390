"""The time that a training step of a network takes on this machine."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from torch import nn

from evodevo.training import optimizers
from evodevo.training.loop import model_loss
from evodevo.training.precision import Batch, Precision
from evodevo.training.settings import MomentumSettings, OptimizerSettings

TIMED_STEPS = 4
"""Steps by which a network is timed; the fastest counts."""


def seconds_of_steps(
    network: nn.Module,
    batch_at: Callable[[int], Batch],
    precision: Precision,
    settings: OptimizerSettings | MomentumSettings,
) -> list[float]:
    """Seconds of each of ``TIMED_STEPS`` steps: batch, forward, backward and optimiser.

    Args:
        network: nn.Module, which is trained: a copy, or one that nobody needs afterwards.
        batch_at: Batch by number of the step.
        precision: Device and number format.
        settings: Settings of the optimiser.
    """
    network.to(precision.device).train()
    optimizer = optimizers.build(network, settings)
    parameters = [parameter for parameter in network.parameters() if parameter.requires_grad]
    times = []
    for step in range(TIMED_STEPS):
        begin = time.perf_counter()
        batch: Any = precision.place(batch_at(step))
        with precision.autocast():
            loss = model_loss(network, batch)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.clip(parameters, settings.clip)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        float(loss.detach())  # waits for the device
        times.append(time.perf_counter() - begin)
    return times

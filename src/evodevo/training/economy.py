"""Settings that trade time for memory or for compilation, applied to a network before its training (docs/gpu.md)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from evodevo.errors import UsageError
from evodevo.execution.memory import free_bytes
from evodevo.training.live_bytes import LiveBytes
from evodevo.training.precision import Precision
from evodevo.training.settings import TrainingSettings

BYTES_PER_PARAMETER = 16
"""A weight, its gradient and two moments, float32 each."""
USABLE = 0.9
"""Share of the free memory that a training may fill; the rest is for what kernels and allocators take beside it."""


def economise(
    model: nn.Module,
    settings: TrainingSettings,
    sample: Callable[[], Any],
    loss_of: Callable[[Any], Tensor],
    precision: Precision,
    memory_bytes: int | None = None,
) -> None:
    """Set the attributes of a model that save memory or time, as the settings ask.

    Args:
        model: Model on its device; its ``economies`` are the attributes that it has.
        settings: Settings of the training.
        sample: Function that gives one sample of a batch, on the device.
        loss_of: Loss of a batch, to measure its memory.
        precision: Device and number format.
        memory_bytes: Limit of all memory of the training; None = what is free.

    Raises:
        UsageError: A setting asks for what the model does not have.
    """
    known = getattr(model, "economies", ())
    wanted = {"loss_tokens": settings.loss_tokens, "checkpointing": settings.checkpointing, "compile": settings.compile}
    for name, value in wanted.items():
        attribute = "compiled" if name == "compile" else name
        if attribute not in known and value not in ("off", "auto", "all"):
            raise UsageError(
                f"training.{name}={value} is for backbones, and a {type(model).__name__} has no such thing; leave it "
                "out. Memory is saved by training.parts, too."
            )
    if "compiled" in known:
        model.compiled = settings.compile  # type: ignore[assignment]
    if "loss_tokens" in known:
        model.loss_tokens = settings.loss_tokens  # type: ignore[assignment]
    if "checkpointing" not in known:
        return
    model.checkpointing = settings.checkpointing == "blocks"  # type: ignore[assignment]
    if settings.checkpointing == "auto":
        available = _available(precision.device, memory_bytes, settings.replicas)
        needed = training_bytes(
            model, settings.batch_size // settings.parts // settings.replicas, sample, loss_of, precision
        )
        model.checkpointing = available is not None and needed > USABLE * available  # type: ignore[assignment]


def _available(device: torch.device, memory_bytes: int | None, replicas: int) -> float | None:
    """Bytes that one replica may use: of a CUDA device what is free there, else its share of what all have together."""
    if device.type == "cuda":
        return free_on(device)
    together = free_on(device) if memory_bytes is None else memory_bytes
    return None if together is None else together / replicas


def training_bytes(
    model: nn.Module, samples: int, sample: Callable[[], Any], loss_of: Callable[[Any], Tensor], precision: Precision
) -> int:
    """Bytes of a training step: weights, gradients, moments, and the activations of so many samples at once.

    The activations are those that the graph of one sample holds after its forward pass, times the number.
    """
    batch = sample()
    # The forward pass here may draw, and must not move the generators of the training.
    with torch.random.fork_rng([precision.device] if precision.device.type == "cuda" else []), LiveBytes() as counted:
        with precision.autocast():
            loss = loss_of(batch)
        activations: int = counted.now()
    del loss
    parameters: int = sum(one.numel() for one in model.parameters())
    return samples * activations + BYTES_PER_PARAMETER * parameters


def free_on(device: torch.device) -> int | None:
    """Free bytes of memory where a device computes; None where the system does not say."""
    if device.type == "cuda":
        held = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return int(torch.cuda.mem_get_info(device)[0]) + held
    return free_bytes()

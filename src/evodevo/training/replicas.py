"""Data-parallel training: every process computes the gradients of its share of a batch, and all take the same step.

There is no wrapper around the model: gradients are averaged once per step, so that sharing, recomputation and parts of
a batch work as they do in one process. Communication does not overlap with the backward pass.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

import torch
from torch import Tensor, distributed, nn

from evodevo.errors import UsageError
from evodevo.training.settings import TrainingSettings

BUCKET_BYTES = 1 << 26
"""Bytes of gradients that are sent together."""


def rank() -> int:
    """Number of this process among the replicas; 0 is the one that writes, and the only one of a plain training."""
    return distributed.get_rank() if distributed.is_initialized() else 0


def count() -> int:
    """Number of replicas."""
    return distributed.get_world_size() if distributed.is_initialized() else 1


def join() -> None:
    """Meet the other replicas that ``torchrun`` has started, with NCCL where each has a CUDA device."""
    here = int(os.environ["LOCAL_RANK"])
    cuda = torch.cuda.device_count() >= int(os.environ["LOCAL_WORLD_SIZE"])
    if cuda:
        torch.cuda.set_device(here)
    distributed.init_process_group("nccl" if cuda else "gloo")


def leave() -> None:
    """Go on alone."""
    if distributed.is_initialized():
        distributed.destroy_process_group()


def check(settings: TrainingSettings) -> None:
    """
    Raises:
        UsageError: This process has not as many replicas as the settings want.
    """
    if settings.replicas != count():
        raise UsageError(
            f"training.replicas={settings.replicas}, and this training has {count()} process(es). Trainings of "
            "backbones alone have replicas; leave it out for others."
        )


def share_of(samples: int) -> slice:
    """This replica's samples of a batch of so many."""
    each = samples // count()
    return slice(rank() * each, (rank() + 1) * each)


def average(tensors: Sequence[Tensor]) -> None:
    """Replace tensors of one device and format by their means over all replicas; to the bit the same in each."""
    bucket: list[Tensor] = []
    size = 0
    for tensor in tensors:
        bucket.append(tensor)
        size += tensor.numel() * tensor.element_size()
        if size >= BUCKET_BYTES:
            _average(bucket)
            bucket, size = [], 0
    if bucket:
        _average(bucket)


def average_gradients(parameters: Sequence[nn.Parameter], loss: Tensor) -> Tensor:
    """Average the gradients, and return the mean loss; without replicas both stay as they are."""
    if count() == 1:
        return loss
    average([parameter.grad for parameter in parameters if parameter.grad is not None])
    mean = loss.detach().clone()
    average([mean])
    return mean


def _average(bucket: Sequence[Tensor]) -> None:
    flat = torch.cat([tensor.flatten() for tensor in bucket])
    distributed.all_reduce(flat)
    flat /= count()
    begin = 0
    for tensor in bucket:
        tensor.copy_(flat[begin : begin + tensor.numel()].view_as(tensor))
        begin += tensor.numel()

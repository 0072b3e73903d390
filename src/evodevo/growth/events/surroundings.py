"""The context in which a network grows: its task, samples and stores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from evodevo.growth.growable import TaskSizes
from evodevo.networks.base import Batch
from evodevo.storage.blobs import BlobPool
from evodevo.training.parts import load_part
from evodevo.training.precision import Batch as TrainingBatch
from evodevo.training.precision import Precision


@dataclass(frozen=True)
class Surroundings:
    """The context in which a network grows.

    Attributes:
        task: Inputs, outputs and batch size on which its cost depends.
        probed: Maps a number of samples to that many of the split ``architecture``, in batches on the network's device;
            equal numbers give equal samples.
        distillation_batch: Maps k to batch k of training samples, for distilling a removed module into the others.
        precision: Precision of the training.
        blobs: Store of weights, by digest.
        batch_size: Samples in one training step.
        in_flops: Whether the budget is in FLOPs, so that these can be priced in steps.
    """

    task: TaskSizes
    probed: Callable[[int], Sequence[Batch]]
    distillation_batch: Callable[[int], TrainingBatch]
    precision: Precision
    blobs: BlobPool
    batch_size: int
    in_flops: bool = False

    def tensors(self, digest: str) -> dict[str, Tensor]:
        """The tensors of a blob."""
        with torch.no_grad():
            return load_part(self.blobs, digest, f"the weights {digest[:12]}")

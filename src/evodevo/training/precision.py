"""Device and number format of a run, decided once before the training."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from evodevo.errors import UsageError

Batch = NDArray[Any] | Tensor | Mapping[str, Any]
"""A batch as tasks return it: one array, or several by name. Prepared batches may be nested and may hold tensors."""


@dataclass(frozen=True)
class Precision:
    """Device and number format of a run.

    Parameters, gradients and the optimiser's moments are float32 in every format: autocast casts weights where they are
    used, so that a step that is small beside its weight is not lost.

    Args:
        device: Device of parameters and batches.
        autocast_dtype: Number format of matrix products; None is the parameters' own float32.
        tf32: Whether float32 products on CUDA round their factors to 10 bits of mantissa (TF32).
    """

    device: torch.device
    autocast_dtype: torch.dtype | None
    tf32: bool = False

    @contextmanager
    def autocast(self) -> Iterator[None]:
        """The context manager of every forward."""
        casting: AbstractContextManager[Any] = nullcontext()
        if self.autocast_dtype is not None:
            casting = torch.autocast(self.device.type, dtype=self.autocast_dtype)
        with self.products(), casting:
            yield

    @contextmanager
    def products(self) -> Iterator[None]:
        """The context manager of a training, backward passes included: float32 products of CUDA as ``tf32`` says.

        PyTorch's own defaults are TF32 in convolutions and float32 in matrix products; here both are what was asked
        for. They are restored afterwards. Other devices have no such products.
        """
        if self.device.type != "cuda":
            yield
            return
        matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
        before = matmul.allow_tf32, cudnn.allow_tf32
        matmul.allow_tf32 = cudnn.allow_tf32 = self.tf32
        try:
            yield
        finally:
            matmul.allow_tf32, cudnn.allow_tf32 = before

    def place(self, batch: Batch) -> Any:
        """A batch on the device: a tensor, or tensors by name, nested as they were, each with its dtype unchanged."""
        if isinstance(batch, Mapping):
            return {name: self.place(part) for name, part in batch.items()}
        return batch.to(self.device) if isinstance(batch, Tensor) else self.tensor(batch)

    def tensor(self, batch: NDArray[Any]) -> Tensor:
        """An array on the device, with its dtype unchanged."""
        host = torch.from_numpy(np.ascontiguousarray(batch))
        if self.device.type == "cuda":
            # Only a copy from pinned memory is asynchronous.
            return host.pin_memory().to(self.device, non_blocking=True)
        return host


def decide(device: str = "auto", precision: str = "float32") -> Precision:
    """The precision of a device's name and a number format.

    Args:
        device: Name of the device: "auto" (CUDA where available), "cpu", "cuda" or "cuda:N".
        precision: Number format: "float32", "tensorfloat32" (CUDA; float32 elsewhere) or "bfloat16".

    Raises:
        UsageError: The device or the format is unknown, or this machine lacks the device.
    """
    if precision not in ("float32", "tensorfloat32", "bfloat16"):
        raise UsageError(f"unknown precision {precision!r}; known: bfloat16, float32, tensorfloat32.")
    dtype = torch.bfloat16 if precision == "bfloat16" else None
    return Precision(_device(device), dtype, precision == "tensorfloat32")


def _device(name: str) -> torch.device:
    count = torch.cuda.device_count()
    if name == "auto":
        return torch.device("cuda" if count else "cpu")
    kind, _, index = name.partition(":")
    if kind not in ("cpu", "cuda") or (index and not (kind == "cuda" and index.isdecimal())):
        raise UsageError(f"unknown device {name!r}; known: auto, cpu, cuda, cuda:N.")
    if kind == "cuda" and int(index or 0) >= count:
        raise UsageError(f"device {name!r} is not on this machine, which has {count} CUDA devices. Use --device cpu.")
    return torch.device(name)

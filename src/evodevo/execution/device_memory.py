"""The memory of a CUDA device as an evaluation used it; measured at its end, where it used one at all."""

from __future__ import annotations

import sys
from typing import NamedTuple


class DeviceUse(NamedTuple):
    """Bytes of a device's memory at the end of an evaluation.

    Attributes:
        peak: Most bytes that the allocator of the evaluation's process held at a time.
        reserved: Bytes that it holds now.
        free: Bytes that nobody on this machine holds now.
        total: Size of the device's memory.
    """

    peak: int
    reserved: int
    free: int
    total: int

    @property
    def around(self) -> int:
        """Bytes that are neither free nor the evaluation's tensors: what CUDA takes per process, and others use."""
        return max(0, self.total - self.free - self.reserved)


def device_use() -> DeviceUse | None:
    """The use of this process's current CUDA device; None where it has not touched CUDA, or CUDA answers no more."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return None
    try:
        free, total = torch.cuda.mem_get_info()
        return DeviceUse(torch.cuda.max_memory_reserved(), torch.cuda.memory_reserved(), free, total)
    except RuntimeError:  # after some failures of a kernel every call fails
        return None

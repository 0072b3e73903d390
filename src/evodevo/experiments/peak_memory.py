"""The most memory that an evaluation held at once: of the CUDA device where it computes there, else of the process."""

from __future__ import annotations

import resource
import sys
from contextlib import suppress

import torch

from evodevo.training.precision import Precision


def forget_peak(precision: Precision) -> None:
    """Begin to count anew."""
    if precision.device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(precision.device)
        return
    # 5 resets the high-water mark of this process; where the kernel has no such file, the mark covers its whole life.
    with suppress(OSError), open("/proc/self/clear_refs", "w") as file:
        file.write("5")


def peak_bytes(precision: Precision) -> int:
    """The peak since ``forget_peak``. On the CPU with everything that the process holds, torch itself included."""
    if precision.device.type == "cuda":
        return int(torch.cuda.max_memory_allocated(precision.device))
    with suppress(OSError), open("/proc/self/status") as file:
        for line in file:
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit

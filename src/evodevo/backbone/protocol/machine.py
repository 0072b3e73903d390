"""Free memory and free disk space of this machine."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path

_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
_USES = ("/sys/fs/cgroup/memory.current", "/sys/fs/cgroup/memory/memory.usage_in_bytes")


def memory_left(device: str) -> int | None:
    """Free bytes of memory where trainings compute: of the CUDA device, else of this machine or container; None where
    the system does not say.
    """
    import torch

    from evodevo.training.precision import decide

    chosen = decide(device).device
    if chosen.type == "cuda":
        return int(torch.cuda.mem_get_info(chosen)[0])
    return min((found for found in (_of_machine(), _of_container()) if found is not None), default=None)


def disk_left(folder: Path) -> int:
    """Free bytes of the file system on which a folder is, or will be."""
    place = folder.absolute()
    while not place.exists():
        place = place.parent
    return shutil.disk_usage(place).free


def _of_machine() -> int | None:
    with suppress(OSError), open("/proc/meminfo") as file:
        for line in file:
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return None


def _of_container() -> int | None:
    for limit, use in zip(_LIMITS, _USES, strict=True):
        with suppress(OSError, ValueError):  # "max" where there is no limit
            return max(0, int(Path(limit).read_text()) - int(Path(use).read_text()))
    return None

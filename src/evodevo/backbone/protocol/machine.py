"""Free memory and free disk space of this machine."""

from __future__ import annotations

import shutil
from pathlib import Path

from evodevo.execution.memory import free_bytes


def memory_left(device: str) -> int | None:
    """Free bytes of memory where trainings compute: of the CUDA device, else of this machine or container; None where
    the system does not say.
    """
    import torch

    from evodevo.training.precision import decide

    chosen = decide(device).device
    if chosen.type == "cuda":
        return int(torch.cuda.mem_get_info(chosen)[0])
    return free_bytes()


def disk_left(folder: Path) -> int:
    """Free bytes of the file system on which a folder is, or will be."""
    place = folder.absolute()
    while not place.exists():
        place = place.parent
    return shutil.disk_usage(place).free

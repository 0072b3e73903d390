"""Measurement and limitation of the memory that an evaluation uses.

The limit is enforced by measuring 20 times a second. ``RLIMIT_AS`` cannot do it (torch maps far more than it uses);
``RLIMIT_DATA`` is set in addition, with a margin, so that one absurd allocation is refused at once, with a traceback
that shows its line, before the machine starts to swap.
"""

from __future__ import annotations

import os
import resource
from contextlib import suppress
from pathlib import Path

_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
_USES = ("/sys/fs/cgroup/memory.current", "/sys/fs/cgroup/memory/memory.usage_in_bytes")
WATCH_SECONDS = 0.05
_DATA_MARGIN = 2  # reserved but untouched memory (thread stacks, arenas) counts for RLIMIT_DATA


def free_bytes() -> int | None:
    """Free bytes of memory of this machine or container; None where the system does not tell."""
    return min((found for found in (_of_machine(), _of_container()) if found is not None), default=None)


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


def exceeds(pids: list[int], limit_bytes: int) -> int | None:
    """Bytes of anonymous and shared memory of these processes together, if above the limit; else None.

    The cheap sum counts a shared page once for each process; only if it is above the limit are the proportional shares
    read, which takes milliseconds.
    """
    resident = (b"RssAnon:", b"RssShmem:", b"VmSwap:")
    if sum(_sum_fields(f"/proc/{pid}/status", resident) for pid in pids) <= limit_bytes:
        return None
    proportional = (b"Pss_Anon:", b"Pss_Shmem:", b"SwapPss:")
    used = sum(_sum_fields(f"/proc/{pid}/smaps_rollup", proportional) for pid in pids)
    return used if used > limit_bytes else None


def _sum_fields(path: str, names: tuple[bytes, ...]) -> int:
    try:
        with open(path, "rb") as file:
            lines = file.read().splitlines()
    except OSError:  # the process has just ended
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith(names))


def refuse_absurd_allocations(limit_bytes: int, *, may_use_cuda: bool = True) -> None:
    """Limit the data segment of this process, except where it may use CUDA on a machine that has it."""
    if may_use_cuda and os.path.exists("/dev/nvidiactl"):  # the driver reserves far more address space than it uses
        return
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    inherited = _sum_fields("/proc/self/status", (b"VmData:",))
    soft = inherited + _DATA_MARGIN * limit_bytes
    if hard == resource.RLIM_INFINITY or soft < hard:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def allow_all_allocations() -> None:
    """Undo ``refuse_absurd_allocations``, so that there is memory for formatting the traceback."""
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (hard, hard))

"""CUDA devices of workers: each worker sees one, so that evaluations need not know of the others.

Nothing here asks the CUDA driver: a process that has touched CUDA cannot be forked into one that uses it. A device is
chosen by the variable ``CUDA_VISIBLE_DEVICES`` of the worker, before it imports torch.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from evodevo.errors import UsageError

VISIBLE = "CUDA_VISIBLE_DEVICES"
AUTO = "auto"
_DRIVER = Path("/proc/driver/nvidia/gpus")
_NAME = re.compile(r"cuda:(\d{1,3})")


def outer_devices(environment: Mapping[str, str], driver: Path = _DRIVER) -> tuple[str, ...]:
    """The devices that this process may use, as values of ``CUDA_VISIBLE_DEVICES``: numbers, or names of the driver.

    Args:
        environment: Variables of this process.
        driver: Folder in which the driver lists the machine's devices; where there is none, there are none.
    """
    if VISIBLE in environment:
        return tuple(part.strip() for part in environment[VISIBLE].split(",") if part.strip() not in ("", "-1"))
    return tuple(str(number) for number in range(len(os.listdir(driver)))) if driver.is_dir() else ()


def visible_values(wanted: Sequence[str], outer: Sequence[str]) -> tuple[str, ...]:
    """What ``CUDA_VISIBLE_DEVICES`` is for the wanted devices, one value for each.

    Args:
        wanted: ``cuda:0``, ``cuda:1``, …, numbered as this process sees them; ``auto`` alone = all, none where there
            are none.
        outer: See ``outer_devices``.

    Raises:
        UsageError: A name is no CUDA device, occurs twice, or is not on this machine.
    """
    if tuple(wanted) == (AUTO,):
        return tuple(outer)
    values = []
    for name in wanted:
        match = _NAME.fullmatch(name)
        if match is None:
            raise UsageError(f"unknown device {name!r} in execution.devices; known: cuda:0, cuda:1, …, or auto alone.")
        number = int(match[1])
        if number >= len(outer):
            raise UsageError(
                f"device {name!r} of execution.devices is not on this machine, which has {len(outer)} CUDA devices."
            )
        values.append(outer[number])
    repeated = [name for name, times in Counter(values).items() if times > 1]
    if repeated:
        raise UsageError(
            f"execution.devices names {wanted[values.index(repeated[0])]!r} twice. Workers share devices where there "
            "are more of them."
        )
    return tuple(values)


def next_device(devices: Sequence[str], taken: Sequence[str | None]) -> str | None:
    """The device of a new worker: the one with the fewest workers, of equals the first; None without devices.

    Args:
        devices: Devices of all workers.
        taken: Devices of the workers that are there.
    """
    counts = Counter(taken)
    return min(devices, key=lambda device: counts[device], default=None)

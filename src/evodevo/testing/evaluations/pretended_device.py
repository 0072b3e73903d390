"""A CUDA device that is a folder, for tests of workers that share one: each process's memory is a file in it."""

from __future__ import annotations

import fcntl
import json
import os
import sys
import time
import types
from contextlib import suppress
from pathlib import Path

from evodevo.execution.base import Report


class OutOfMemoryError(RuntimeError):
    """Stands for ``torch.OutOfMemoryError``, by whose name such a failure is known."""


class PretendedDevice:
    """The device as one process sees it.

    Args:
        folder: Its folder; files of processes that have ended do not count.
        total: Size of its memory in bytes.
        around: Bytes that each process takes beside its tensors, from its first allocation to its end.

    Attributes:
        peak: Most bytes that the tensors of this process took.
    """

    def __init__(self, folder: Path, total: int, around: int) -> None:
        self.folder, self.total, self.around, self.peak = folder, total, around, 0

    def take(self, size: int) -> None:
        """Let the tensors of this process have so many bytes.

        Raises:
            OutOfMemoryError: There are fewer.
        """
        with open(self.folder.parent / "lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            others = sum(taken for pid, taken in self._taken().items() if pid != os.getpid())
            self.peak = max(self.peak, size)
            if others + size + self.around > self.total:
                raise OutOfMemoryError("CUDA out of memory (pretended)")
            (self.folder / str(os.getpid())).write_text(str(size + self.around))

    def free(self) -> int:
        """Bytes that nobody has."""
        return self.total - sum(self._taken().values())

    def busy(self) -> int:
        """Number of processes with tensors."""
        return sum(taken > self.around for taken in self._taken().values())

    def _taken(self) -> dict[int, int]:
        taken = {}
        for file in self.folder.iterdir():
            with suppress(ProcessLookupError):
                os.kill(int(file.name), 0)
                taken[int(file.name)] = int(file.read_text() or 0)
        return taken


def pretend_device(payload: bytes, report: Report) -> bytes:
    """Use such a device in place of CUDA; the answer is the most processes that had tensors on it at a time.

    The payload is JSON: ``folder``, ``total`` and ``around`` of the device, ``peak``, the bytes of this evaluation, and
    ``seconds`` for which it has them.
    """
    wanted = json.loads(payload)
    device = PretendedDevice(Path(wanted["folder"]), wanted["total"], wanted["around"])
    stand_in = types.ModuleType("torch")
    stand_in.cuda = types.SimpleNamespace(  # type: ignore[attr-defined]
        is_initialized=lambda: True,
        mem_get_info=lambda: (device.free(), device.total),
        max_memory_reserved=lambda: device.peak,
        memory_reserved=lambda: 0,
    )
    sys.modules["torch"] = stand_in
    device.take(wanted["peak"])
    most, end = 0, time.monotonic() + wanted["seconds"]
    while time.monotonic() < end:
        most = max(most, device.busy())
        time.sleep(0.005)
    device.take(0)
    return str(most).encode()

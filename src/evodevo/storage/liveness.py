"""Check whether the process that holds a lease is still alive.

A process is identified by (boot id, pid namespace, pid, start time): pids are reused, and differ between containers.
"""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Owner:
    """The permanent identity of a process. ``start`` is in clock ticks since boot (proc(5), stat, field 22)."""

    host: str
    boot: str
    namespace: str
    pid: int
    start: int

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}"


def this_process() -> Owner:
    """The identity of the current process."""
    pid = os.getpid()
    state = _state_and_start(pid)
    return Owner(socket.gethostname(), _boot(), _namespace(), pid, state[1] if state else 0)


def is_alive(owner: Owner, *, one_kernel: bool) -> bool | None:
    """Whether a process is alive, decided at once and without any clock.

    Args:
        owner: Identity of the process.
        one_kernel: Whether the store lies on a local disk, which only one running kernel can have mounted.

    Returns:
        True or False where the process can be observed; None where only its heartbeat can decide.
    """
    if owner.boot != _boot():
        return False if one_kernel else None
    if owner.namespace != _namespace():
        return None
    state = _state_and_start(owner.pid)
    if state is not None:
        # A zombie has ended and only waits for its parent.
        return state[1] == owner.start and state[0] not in "ZX"
    try:
        os.kill(owner.pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    # It exists, but /proc hides it (another user, mounted with hidepid): its start time is unknown.
    return None


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def _namespace() -> str:
    return os.readlink("/proc/self/ns/pid")


def _state_and_start(pid: int) -> tuple[str, int] | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The command name is in brackets and may itself contain brackets and spaces.
    fields = text.rpartition(")")[2].split()
    return fields[0], int(fields[19])

"""Control of process trees on Linux: death signals, adoption of orphans, and killing of all descendants."""

from __future__ import annotations

import ctypes
import os
import signal
import time
from contextlib import suppress

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_LIBC = ctypes.CDLL(None, use_errno=True)


def die_with(parent: int, number: signal.Signals) -> None:
    """Let the kernel send this process a signal when its parent ends; to be called right after the fork.

    The kernel watches the *thread* that forked, so the parent must have forked from its main thread.

    Args:
        parent: Process id of the parent, taken before the fork.
        number: Signal to send.
    """
    _prctl(_PR_SET_PDEATHSIG, number)
    if os.getppid() != parent:  # the parent ended before the call of prctl, so that no signal will come
        os._exit(1)


def adopt_orphans() -> None:
    """Make this process the parent of every descendant whose own parent ends, daemons included (a subreaper)."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def _prctl(option: int, value: int) -> None:
    if _LIBC.prctl(option, ctypes.c_ulong(value), 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"prctl({option}): {os.strerror(number)}")


def children(pid: int) -> list[int]:
    """Process ids of the children, zombies included; empty if the process has ended.

    Where the kernel does not list children (CONFIG_PROC_CHILDREN; every large distribution has it) the list is empty
    too, and only process groups can be killed.
    """
    pids: list[int] = []
    with suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            with suppress(OSError), open(f"/proc/{pid}/task/{task}/children", "rb") as file:
                pids += map(int, file.read().split())
    return pids


def descendants(pid: int) -> list[int]:
    """Process ids of a process and of all its descendants."""
    pids = [pid]
    for parent in pids:  # the list grows during the iteration, which reaches all generations
        pids += children(parent)
    return pids


def end_descendants(group: int | None = None, *, seconds: float = 20.0) -> bool:
    """Kill a process group and every descendant of this process, and wait until none is left.

    The caller has called ``adopt_orphans``, so that no process escapes by starting a session of its own.

    Args:
        group: Process group to kill too; None = none.
        seconds: Longest wait in seconds.

    Returns:
        False if a process did not end in that time (it is stuck in the kernel).
    """
    deadline = time.monotonic() + seconds
    while True:
        if group is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(group, signal.SIGKILL)
        for pid in descendants(os.getpid())[1:]:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        if reap() is None:
            return True
        if time.monotonic() > deadline:
            return False
        time.sleep(0.002)


def kill_marked(variable: str) -> None:
    """Kill every process that was started with this environment variable.

    The last resort, where the guard was killed and the process tree is lost.

    Args:
        variable: ``NAME=value``; the value is a unique secret of the caller.
    """
    mark = variable.encode()
    killed = True
    while killed:  # repeated, because a process may have forked during the scan
        killed = False
        for name in filter(str.isdecimal, os.listdir("/proc")):
            with suppress(OSError):
                with open(f"/proc/{name}/environ", "rb") as file:
                    marked = mark in file.read().split(b"\0")
                if marked and int(name) != os.getpid():
                    os.kill(int(name), signal.SIGKILL)
                    killed = True


def reap() -> dict[int, int] | None:
    """Collect children that have ended.

    Returns:
        Process id -> wait status of each; None if there are no children any more.
    """
    ended: dict[int, int] = {}
    try:
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return ended
            ended[pid] = status
    except ChildProcessError:
        return ended or None

"""Processes and their descendants on Linux: who dies with whom, and how to leave none behind."""

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
    """Have this process get a signal when its parent ends; call it first thing after the fork.

    The kernel watches the *thread* that forked, so the parent must have forked from its main thread.

    Args:
        parent: the process id that the parent had before the fork.
        number: the signal.
    """
    _prctl(_PR_SET_PDEATHSIG, number)
    if os.getppid() != parent:  # it ended in between
        os._exit(1)


def adopt_orphans() -> None:
    """Make this process the parent of every descendant whose own parent ends, daemons included."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def _prctl(option: int, value: int) -> None:
    if _LIBC.prctl(option, ctypes.c_ulong(value), 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"prctl({option}): {os.strerror(number)}")


def children(pid: int) -> list[int]:
    """Process ids of the children, zombies included; empty if the process is gone.

    Where the kernel does not list children (CONFIG_PROC_CHILDREN; every large distribution has it) the answer is empty
    too, and only process groups are known.
    """
    found: list[int] = []
    with suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            with suppress(OSError), open(f"/proc/{pid}/task/{task}/children", "rb") as file:
                found += map(int, file.read().split())
    return found


def descendants(pid: int) -> list[int]:
    """The process itself and everything below it."""
    found = [pid]
    for each in found:  # grows while it is walked
        found += children(each)
    return found


def end_descendants(group: int | None = None, *, seconds: float = 20.0) -> bool:
    """Kill a process group and every descendant of this process, and wait until none is left.

    The caller has called ``adopt_orphans``, so that nothing escapes by starting a session of its own.

    Returns:
        False if something would not die in that time (a process that is stuck in the kernel).
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
    """Kill every process that was born with this environment variable: the last resort, when nobody else is left to
    tell who descends from whom.

    Args:
        variable: ``NAME=value``; the value is a secret of the caller, and unique.
    """
    mark = variable.encode()
    found = True
    while found:  # until none appears any more: one may have forked while we looked
        found = False
        for name in filter(str.isdecimal, os.listdir("/proc")):
            with suppress(OSError):
                with open(f"/proc/{name}/environ", "rb") as file:
                    marked = mark in file.read().split(b"\0")
                if marked and int(name) != os.getpid():
                    os.kill(int(name), signal.SIGKILL)
                    found = True


def reap() -> dict[int, int] | None:
    """Collect children that have ended.

    Returns:
        process id -> wait status of each; None if there are no children at all any more.
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

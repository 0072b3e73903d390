"""The top process of a worker: it adopts, and in the end kills, everything below it."""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from collections.abc import Mapping
from contextlib import suppress

from evodevo.execution import warm
from evodevo.execution.base import Evaluator
from evodevo.execution.failures import signal_name
from evodevo.execution.family import adopt_orphans, die_with, end_descendants, reap
from evodevo.execution.signals import SignalPipe
from evodevo.scratch import discard, hold

_COORDINATOR_SECONDS = 0.5
"""Seconds between two checks of the guard's parent, in case a third process holds the coordinator's end of the pipe
open."""
_WARM_SECONDS = 3.0
"""Seconds that the warm process may take to end what is below it; a stopped one never does."""


def guard(coordinator: int, scratch: str, evaluators: Mapping[str, Evaluator] | None = None) -> int:
    """Run a warm process until the coordinator is gone, with the protocol on stdin and stdout.

    Args:
        coordinator: Process id of the coordinator, taken before this process was started: asking for the parent's would
            be too late if that has died already.
        scratch: Folder for temporary files, which is removed at the end.
        evaluators: Name -> function of this process; they precede the table's rows.

    Returns:
        The exit status of this process.
    """
    own = os.getpid()
    adopt_orphans()
    hold(scratch)
    signals = SignalPipe(signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    pid = os.fork()
    if pid == 0:
        signals.release()
        die_with(own, signal.SIGTERM)  # one that it can act on: it ends its evaluation's whole group
        warm.run(scratch, evaluators or {})
    try:
        # The coordinator must see the end of the stream when the warm process ends.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.close(nowhere)
        return _watch(pid, coordinator, signals)
    finally:
        _end_warm(pid, signals)
        end_descendants()
        discard(scratch)


def _watch(pid: int, coordinator: int, signals: SignalPipe) -> int:
    """Until the warm process or the coordinator ends, or the end is requested."""
    poll = select.poll()
    poll.register(0, 0)  # the end of the stream only: its content is for the warm process
    poll.register(signals.fd, select.POLLIN)
    while True:
        ready = {fd for fd, _ in poll.poll(_COORDINATOR_SECONDS * 1000)}
        status = (reap() or {}).get(pid)
        if status is not None:
            if os.WIFSIGNALED(status):
                print(f"the warm process ended with {signal_name(os.WTERMSIG(status))}.", file=sys.stderr)
            return 1 if status else 0
        if 0 in ready or signals.read() - {signal.SIGCHLD} or os.getppid() != coordinator:
            return 0


def _end_warm(pid: int, signals: SignalPipe) -> None:
    """Let the warm process end everything below it, so that this is done also where this process is killed meanwhile.

    Ray kills the direct children of a process that it ends, guards among them, and nothing below those.
    """
    deadline = time.monotonic() + _WARM_SECONDS
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
        while (left := deadline - time.monotonic()) > 0:
            ended = reap()
            if ended is None or pid in ended:
                return
            select.select([signals.fd], [], [], left)
            signals.read()
        os.kill(pid, signal.SIGKILL)

"""Named points in the code at which a test may kill this process, to check what survives a crash.

``EVODEVO_FAILPOINT=after_blob_rename:kill@3`` sends SIGKILL to the process that passes the point for the third time.
There is no other action, and without the variable a pass costs one comparison.
"""

from __future__ import annotations

import os
import re
import signal

from evodevo.errors import UsageError, unknown_name

VARIABLE = "EVODEVO_FAILPOINT"
POINTS = (
    "before_individuals",
    "after_individuals",
    "after_blob_temporary",
    "after_blob_rename",
    "before_evaluation_commit",
    "after_evaluation_commit",
    "before_generation_event",
    "after_generation_event",
)
EVENT_POINTS = (
    "before_run_commit",
    "after_run_commit",
    "before_event_commit",
    "after_event_commit",
)
"""Of runs and of all events that a driver records by itself; a stage of a composed run begins with both."""
SYSTEM_POINTS = (
    "before_cycle_commit",
    "after_cycle_commit",
    "before_ask_commit",
    "after_ask_commit",
    "before_tell_commit",
    "after_tell_commit",
    "before_publish_commit",
    "after_publish_commit",
)
MIGRATION_POINTS = ("before_migration_commit",)
FIT_POINTS = ("before_fit_part", "after_fit_part")
"""Around each part that a fit keeps while it works."""

_armed = os.environ.get(VARIABLE)
_passes: dict[str, int] = {}


def failpoint(name: str) -> None:
    """Pass a point; without effect unless the environment variable names it."""
    if _armed is not None:
        _pass(name, _armed)


def _pass(name: str, armed: str) -> None:
    match = re.fullmatch(r"([a-z_]+):kill@([1-9][0-9]{0,8})", armed)
    if match is None:
        raise UsageError(f"{VARIABLE} needs name:kill@count, for example {POINTS[0]}:kill@1; got {armed[:80]!r}.")
    wanted, count = match[1], int(match[2])
    every = (*POINTS, *EVENT_POINTS, *SYSTEM_POINTS, *MIGRATION_POINTS, *FIT_POINTS)
    if wanted not in every:
        raise unknown_name("failpoint", wanted, every)
    if name == wanted:
        _passes[name] = _passes.get(name, 0) + 1
        if _passes[name] == count:
            os.kill(os.getpid(), signal.SIGKILL)

"""The seconds that a fit has used in all its processes, written down while it runs.

A thread does that: a candidate that scikit-learn trains gives no word before it has ended, and the time of one that was
killed counts as well.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

TICK = 1.0
"""Seconds between two notes: a kill loses as much at most."""


class UsedTime:
    """Seconds used so far.

    Args:
        path: File of the note.
        began: Time of ``clock`` at which the work of this process began.
        clock: Time in seconds.

    Attributes:
        before: Seconds of earlier processes; 0 where no note can be read.
    """

    def __init__(self, path: Path, began: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._path, self._began, self._clock = path, began, clock
        self.before = _read(path)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="evodevo-fit-clock", daemon=True)

    @property
    def seconds(self) -> float:
        """Seconds of all processes."""
        return self.before + self._clock() - self._began

    def start(self) -> None:
        """Begin to write notes."""
        self.note()
        self._thread.start()

    def end(self) -> None:
        """Write the last note."""
        self._ended.set()
        self._thread.join()
        self.note()

    def note(self) -> None:
        """Write the seconds down; errors of the disk are left to those who write more."""
        draft = self._path.with_name(f".draft-{self._path.name}")
        with suppress(OSError):
            draft.write_text(f"{self.seconds:.3f}\n", encoding="ascii")
            draft.replace(self._path)

    def _run(self) -> None:
        while not self._ended.wait(TICK):
            self.note()


def _read(path: Path) -> float:
    try:
        with open(path, encoding="ascii") as file:
            found = float(file.read(40))
    except (OSError, ValueError):
        return 0.0
    return found if 0 <= found < 1e9 else 0.0

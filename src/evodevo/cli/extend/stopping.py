"""Ctrl-C and SIGTERM while agents run."""

from __future__ import annotations

import signal
from types import FrameType, TracebackType
from typing import Any, Protocol

from evodevo.cli.failures import TerminatedError


class Stoppable(Protocol):
    """What runs."""

    def stop(self) -> None:
        """End soon, safely."""
        ...


class Telling(Protocol):
    """What shows it."""

    def begin(self, session: Any) -> None:
        """It is about to run."""
        ...

    def say(self, text: str) -> None:
        """A sentence to the user."""
        ...


class Stopping:
    """While it lasts, Ctrl-C once ends what runs safely, twice at once; SIGTERM ends it safely.

    Args:
        view: told when it begins, and that it is about to stop.
    """

    def __init__(self, view: Telling) -> None:
        self.terminated = False
        self._session: Stoppable | None = None
        self._view = view
        self._presses = 0
        self._before: dict[signal.Signals, Any] = {}

    def begin(self, session: Stoppable) -> None:
        """Agents are about to run; from now on they can be stopped."""
        self._view.begin(session)
        self._session = session

    def __enter__(self) -> Stopping:
        self._before = {
            signal.SIGINT: signal.signal(signal.SIGINT, self._interrupt),
            signal.SIGTERM: signal.signal(signal.SIGTERM, self._terminate),
        }
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        self._presses += 1
        if self._session is None or self._presses > 1:
            raise KeyboardInterrupt
        self._session.stop()
        self._view.say("stopping; children that are under way are trained again when it goes on. Ctrl-C: at once.")

    def _terminate(self, number: int, frame: FrameType | None) -> None:
        self.terminated = True
        if self._session is None:
            raise TerminatedError
        self._session.stop()

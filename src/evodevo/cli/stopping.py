"""Ctrl-C and SIGTERM while something long runs: it ends safely, and can be gone on with."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from types import FrameType, TracebackType
from typing import Any, Protocol

from evodevo.cli.failures import TerminatedError


class Stoppable(Protocol):
    """What runs. Each further call wants it sooner."""

    def stop(self) -> None:
        """End soon, safely."""
        ...


class Telling(Protocol):
    """What shows it."""

    def begin(self, session: Any, /) -> None:
        """It is about to run."""
        ...

    def say(self, text: str, /) -> None:
        """A sentence to the user."""
        ...


class Stopping:
    """While it lasts, Ctrl-C ends what runs safely, as often as there are words for it; once more ends it at once.

    SIGTERM counts as all of these together: whoever sends it will not wait long.

    Args:
        view: told when it begins, and that it is about to stop.
        words: what is said at the first Ctrl-C, at the second, …

    Attributes:
        session: what runs; None before it began.
        terminated: whether SIGTERM came.
    """

    def __init__(self, view: Telling, words: Sequence[str]) -> None:
        self.session: Any = None
        self.terminated = False
        self._view, self._words = view, words
        self._presses = 0
        self._before: dict[signal.Signals, Any] = {}

    def begin(self, session: Stoppable) -> None:
        """It is about to run; from now on it can be stopped."""
        self.session = session
        self._view.begin(session)

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
        if self.session is None or self._presses > len(self._words):
            raise KeyboardInterrupt
        self.session.stop()
        self._view.say(self._words[self._presses - 1])

    def _terminate(self, number: int, frame: FrameType | None) -> None:
        self.terminated = True
        if self.session is None:
            raise TerminatedError
        while self._presses < len(self._words):
            self._presses += 1
            self.session.stop()

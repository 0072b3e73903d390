"""Safe stopping of long work on Ctrl-C and SIGTERM, so that it can be resumed."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from types import FrameType, TracebackType
from typing import Any, Protocol

from evodevo.cli.failures import TerminatedError


class Stoppable(Protocol):
    """Work that can be stopped. Each further call asks for an earlier end."""

    def stop(self) -> None:
        """Stop soon and safely."""
        ...


class StopListener(Protocol):
    """A view that shows messages."""

    def begin(self, session: Any, /) -> None:
        """Start the view, before the work runs."""
        ...

    def notify(self, text: str, /) -> None:
        """Show a sentence to the user."""
        ...


class Stopping:
    """Context in which Ctrl-C stops the work safely, once per message; one more Ctrl-C ends it at once.

    SIGTERM counts as all of these together, since its sender will soon kill the process.

    Args:
        view: View that is started with the work, and shows the messages.
        words: Messages at the first Ctrl-C, at the second, …

    Attributes:
        session: Work that runs; None before it begins.
        terminated: Whether SIGTERM came.
    """

    def __init__(self, view: StopListener, words: Sequence[str]) -> None:
        self.session: Any = None
        self.terminated = False
        self._view, self._words = view, words
        self._presses = 0
        self._before: dict[signal.Signals, Any] = {}

    def begin(self, session: Stoppable) -> None:
        """Start the view; from now on the work can be stopped."""
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
        self._view.notify(self._words[self._presses - 1])

    def _terminate(self, number: int, frame: FrameType | None) -> None:
        self.terminated = True
        if self.session is None:
            raise TerminatedError
        while self._presses < len(self._words):
            self._presses += 1
            self.session.stop()

"""Base of all views of long work: a live region on a terminal, a stream of events for programs, lines elsewhere.

Views write on stderr, so that stdout holds nothing but the result; the exception is the stream of events.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from evodevo.cli import output

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.live import Live
    from rich.text import Text

REDRAW_SECONDS = 0.25
BAR = 24
V = TypeVar("V")


class Shown:
    """A view of long work, used as a context."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    def notify(self, text: str) -> None:
        """Show a sentence to the user."""
        output.words(text)

    def end(self) -> None:
        """End the view."""
        return


class EventStream:
    """Stream of newline-delimited JSON on stdout.

    Args:
        stop: Called once when the reader has closed stdout: as with Ctrl-C, finished work is recorded.
    """

    def __init__(self, stop: Callable[[], None]) -> None:
        self._stop = stop
        self._deaf = False

    def write(self, kind: str, facts: dict[str, Any]) -> None:
        """Write one event."""
        if self._deaf:
            return
        try:
            output.event({"schema": "evodevo.event/1", "type": kind, **facts})
        except output.ReaderGoneError:
            self._deaf = True
            self._stop()


class Region:
    """A region of a terminal that is drawn again and again.

    Args:
        picture: Returns the contents for the last message.
        clock: Returns the time in seconds.
    """

    def __init__(self, picture: Callable[[str], RenderableType], clock: Callable[[], float] = time.monotonic) -> None:
        self._picture, self._clock = picture, clock
        self._drawn = 0.0
        self._drawing = False
        self._live: Live | None = None
        self._notice = ""

    @property
    def started(self) -> bool:
        """Whether it is being drawn."""
        return self._live is not None

    def start(self) -> None:
        """Begin drawing."""
        from rich.console import Console
        from rich.live import Live

        console = Console(stderr=True, highlight=False, markup=False, emoji=False)
        self._live = Live(console=console, auto_refresh=False, redirect_stdout=False, redirect_stderr=False)
        self._live.start()
        self.draw()

    def refresh(self, *, now: bool) -> None:
        """Draw again if the interval is over, or at once where ``now``."""
        if now or self._clock() - self._drawn >= REDRAW_SECONDS:
            self.draw()

    def notify(self, text: str) -> None:
        """Show a sentence to the user: in the region, or as a line while there is none."""
        if self._live is None:
            output.words(text)
        else:
            self._notice = text
            self.draw()

    def keep(self, lines: Sequence[str]) -> None:
        """Print lines that stay above the region."""
        for line in lines:
            if self._live is None:
                output.words(line)
            else:
                self._live.console.print(output.clean(line, 10_000))

    def end(self) -> None:
        """End the region; its last drawing stays."""
        if self._live is not None:
            self.draw()
            self._live.stop()
            self._live = None

    def draw(self) -> None:
        """Draw now."""
        # ``notify`` is called from a signal handler, perhaps in the middle of a drawing; the next one shows it then.
        if self._live is None or self._drawing:
            return
        self._drawing = True
        try:
            self._drawn = self._clock()
            self._live.update(self._picture(self._notice), refresh=True)
        finally:
            self._drawing = False


def fitting(*, json: bool, events: Callable[[], V], live: Callable[[], V], lines: Callable[[], V]) -> V:
    """The view for this output: events if requested, the live region on a capable terminal, lines elsewhere."""
    if json:
        return events()
    terminal = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
    return live() if terminal and output.has_unicode(sys.stderr) else lines()


def progress_bar(share: float) -> Text:
    """A bar that is filled to this share, 0 to 1."""
    from rich.text import Text

    full = round(min(1.0, share) * BAR)
    return Text("━" * full, style="green") + Text("━" * (BAR - full), style="bright_black")

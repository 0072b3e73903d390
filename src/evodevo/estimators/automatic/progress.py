"""How far a fit is, from the messages of its search, and a bar of it for those that are begun from Python."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from evodevo.runs.progress import bar_shown
from evodevo.runs.search_progress import duration

if TYPE_CHECKING:
    from rich.console import Console

    from evodevo.estimators.automatic.search import Listener


class FitProgress:
    """State of a fit.

    Args:
        clock: Time in seconds.

    Attributes:
        now: What is being done.
        leader: Best candidate so far with its score; empty before the first.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._begun, self._seconds = clock(), math.inf
        self.now = "reading"
        self.leader = ""

    def handle(self, kind: str, facts: dict[str, Any]) -> None:
        """Take in one message; see ``estimators.automatic.search.Listener``."""
        if kind == "plan":
            self._begun, self._seconds = self._clock() - facts["used"], facts["seconds"]
            self.now = "plain models"
        elif kind == "reading":
            self.now = f"reading: {facts['done']:,} of {facts['count']:,} images"
        elif kind == "tower":
            left = facts["done"] < facts["count"]
            self.now = f"{facts['name']} reads: {facts['done']:,} of {facts['count']:,}" if left else "plain models"
        elif kind == "final":
            self.now = f"last training on all rows: {facts['name']}"
        elif kind == "network":
            fold = f", fold {facts['fold'] + 1} of {facts['folds']}" if facts["folds"] > 1 else ""
            self.now = f"networks: {facts['name']}{fold}"
        if "leader" in facts:
            self.leader = f"{facts['leader']} {facts['leader_score']:.4f}"

    @property
    def share(self) -> float:
        """Fraction of the time that is over."""
        return min(1.0, (self._clock() - self._begun) / self._seconds)

    @property
    def left(self) -> str:
        """Time left, in words; empty before it begins."""
        if math.isinf(self._seconds):
            return ""
        return duration(max(0.0, self._seconds - (self._clock() - self._begun)))


@contextmanager
def shown(
    progress: bool | None, listener: Listener | None, console: Console | None = None
) -> Iterator[Listener | None]:
    """The listener of a fit, with a bar where one is wanted.

    Args:
        progress: Whether a bar is shown; None shows it on a terminal and in a notebook, where no listener is given.
        listener: Listener of the caller, which is called too.
        console: Console of the bar; None is that of stderr.
    """
    with bar_shown(progress, listener is not None, console) as show:
        if show is None:
            yield listener
            return
        state = FitProgress()
        show(0.0, state.now, "")

        def listen(kind: str, facts: dict[str, Any]) -> None:
            if listener is not None:
                listener(kind, facts)
            state.handle(kind, facts)
            best = f"best: {state.leader}, " if state.leader else ""
            show(state.share, state.now, f"{best}{state.left} left" if state.left else "")

        yield listen
        show(1.0, "finished", f"best: {state.leader}" if state.leader else "")

"""Progress of an evaluation: a bar on a terminal, a line per set elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from evodevo.cli import output
from evodevo.cli.views import Region, Shown, fitting, progress_bar
from evodevo.runs.search_progress import duration

if TYPE_CHECKING:
    from rich.console import RenderableType


class EvaluationView(Shown):
    """The measurement in progress, with lines on stderr.

    Args:
        clock: Time in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._who = ""
        self._what = ""
        self._begun = clock()
        self._share = 0.0

    def next(self, name: str) -> None:
        """Begin with another individual."""
        self._who = name

    def handle(self, kind: str, facts: dict[str, Any]) -> None:
        """Handle one message of the evaluation; see ``experiments.downstream.individuals.Listener``."""
        if kind == "begin":
            self._what = f"{self._who}: {facts['name']} ({facts['number']} of {facts['count']})"
            self._begun, self._share = self._clock(), 0.0
        elif kind == "progress":
            self._share = facts["done"] / max(1, facts["whole"])
        elif kind == "unrecorded":
            self.notify(f"this result is not in the store: {facts['why']}.")
        self.show(kind, facts)

    def show(self, kind: str, facts: dict[str, Any]) -> None:
        """Show what has changed."""
        if kind == "result":
            how = "known from the store" if facts["recorded"] else duration(self._clock() - self._begun)
            output.words(f"{self._what}: {how}")

    def status(self) -> str:
        """The present step, and the time left."""
        spent = self._clock() - self._begun
        left = f", {duration(spent / self._share - spent)} left" if self._share > 0.02 else ""
        return f"{self._what} {100 * self._share:.0f} %{left}"


class LiveEvaluation(EvaluationView):
    """The same with a bar that moves."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(clock)
        self._region = Region(self._picture, clock)
        self._started = False

    def show(self, kind: str, facts: dict[str, Any]) -> None:
        if not self._started:
            self._started = True
            self._region.start()
        self._region.refresh(now=kind in ("begin", "result"))

    def notify(self, text: str) -> None:
        self._region.notify(text)

    def end(self) -> None:
        self._region.end()

    def _picture(self, notice: str) -> RenderableType:
        from rich.text import Text

        line = progress_bar(self._share) + Text(f"  {self.status()}")
        return line + Text(f"\n{notice}") if notice else line


def choose() -> EvaluationView:
    """The view for this output."""
    return fitting(json=False, events=EvaluationView, live=LiveEvaluation, lines=EvaluationView)

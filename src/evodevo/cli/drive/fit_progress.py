"""Progress of ``evodevo fit``: a bar with the leader on a terminal, a line per candidate elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from evodevo.cli import output
from evodevo.cli.views import Region, Shown, fitting, progress_bar
from evodevo.estimators.automatic.progress import FitProgress
from evodevo.runs.search_progress import duration

if TYPE_CHECKING:
    from rich.console import RenderableType

QUIET_SECONDS = 10.0
"""Seconds between two lines about networks in training."""


class FitView(Shown):
    """Lines on stderr.

    Args:
        clock: Time in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._said = clock()
        self.state = FitProgress(clock)

    def handle(self, kind: str, facts: dict[str, Any]) -> None:
        """Handle one message; see ``estimators.automatic.search.Listener``."""
        self.state.handle(kind, facts)
        if kind == "plan":
            self.notify(_plan(facts))
            if facts["kept"] or facts["used"]:
                self.notify(
                    f"goes on with {facts['kept']} parts that were kept; {duration(facts['used'])} of "
                    f"{duration(facts['seconds'])} are used"
                )
        elif kind == "candidate":
            loss = f"log-loss {facts['log_loss']:.4f}" if "log_loss" in facts else f"rmse {facts['rmse']:.5g}"
            self.notify(
                f"{facts['name']}: {facts['score']:.4f}, {loss}, "
                f"{duration(facts['seconds'])}   best so far: {self.state.leader}"
            )
        elif kind == "left_out":
            self.notify(f"left out: {facts['reason']}")
        elif kind == "damaged":
            self.notify(f"{facts['key']!r} was kept and cannot be read; it is trained again")
        self.show(kind, facts)

    def show(self, kind: str, facts: dict[str, Any]) -> None:
        """Show what has changed."""
        if kind == "reading" and self._clock() - self._said >= QUIET_SECONDS:
            self._said = self._clock()
            output.words(self.status())
        elif kind == "network" and self._clock() - self._said >= QUIET_SECONDS:
            self._said = self._clock()
            judged = "" if facts["log_loss"] is None else f", validation loss {facts['log_loss']:.4f}"
            output.words(f"{self.status()}{judged}")

    def status(self) -> str:
        """What is being done, and the time left."""
        return f"{self.state.now}, {self.state.left} left" if self.state.left else self.state.now


class LiveFit(FitView):
    """The same with a bar that moves."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(clock)
        self._region = Region(self._picture, clock)

    def notify(self, text: str) -> None:
        self._region.keep([text])

    def show(self, kind: str, facts: dict[str, Any]) -> None:
        if not self._region.started:
            self._region.start()
        self._region.refresh(now=kind not in ("network", "reading"))

    def end(self) -> None:
        self._region.end()

    def _picture(self, notice: str) -> RenderableType:
        from rich.text import Text

        leader = f"   best: {self.state.leader}" if self.state.leader else ""
        return progress_bar(self.state.share) + Text(f"  {self.status()}{leader}")


class SilentFit(FitView):
    """No progress, for programs."""

    def notify(self, text: str) -> None:
        pass

    def show(self, kind: str, facts: dict[str, Any]) -> None:
        pass


def choose(*, json: bool) -> FitView:
    """The view for this output."""
    return fitting(json=json, events=SilentFit, live=LiveFit, lines=FitView)


def _plan(facts: dict[str, Any]) -> str:
    columns = ", ".join(f"{count} {kind}" for kind, count in facts["columns"].items())
    if facts["kind"] == "quantity":
        low, high = facts["range"]
        what = (
            f"{facts['label'][0]} is a quantity, {low:g} to {high:g}, {facts['numbers']:,} different numbers "
            "(--kind class makes classes of them)"
        )
    else:
        several = "classes" if facts["kind"] == "class" else "labels"
        what = f"{facts['classes']} {several} of {', '.join(facts['label'])}"
        if several == "classes" and facts["numeric"] and facts["classes"] > 2:
            what += " (numbers: --kind quantity learns them as a quantity)"
    held = f"{facts['folds']} folds held out in turn" if facts["folds"] > 1 else "one part held out"
    ignored = "".join(f"; {name!r} is ignored: {reason}" for name, reason in facts["ignored"].items())
    unlabelled = facts["rows"] - facts["labelled"]
    without = f" ({unlabelled:,} without a label)" if unlabelled else ""
    lost = facts.get("unreadable", 0)
    names = ", ".join(facts.get("unreadable_names", ()))
    left_out = f"; {lost:,} files cannot be read and are left out ({names})" if lost else ""
    return f"{facts['rows']:,} rows{without}, columns: {columns}; {what}; {held}{ignored}{left_out}"

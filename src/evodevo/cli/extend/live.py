"""Views of running agents: a live table on a terminal, plain lines elsewhere, events for programs."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from evodevo.cli import output
from evodevo.cli.extend.progress import AgentProgress, AgentsProgress
from evodevo.cli.search_progress import duration
from evodevo.cli.views import EventStream, Region, Shown, fitting, progress_bar

if TYPE_CHECKING:
    from rich.console import RenderableType

    from evodevo.multitask.run.run import Session

ROWS = 24
WORDS = ("stopping; children that are under way are trained again when it goes on. Ctrl-C: at once.",)
"""Message at the first Ctrl-C."""


class AgentsView(Shown):
    """View with plain lines: one per child, one per published path; no colour, no carriage return."""

    def __init__(self) -> None:
        self.standing = AgentsProgress()

    def begin(self, session: Session) -> None:
        """Start the view, before agents run."""
        self.standing.begin(session)
        output.words(head(self.standing))

    def hear(self, kind: str, facts: dict[str, Any]) -> None:
        """Handle one message of the listener."""
        self.standing.hear(kind, facts)
        self.show(kind, facts)

    def show(self, kind: str, facts: dict[str, Any]) -> None:
        """Show what has changed."""
        standing = self.standing
        if kind == "round":
            output.words(f"round {facts['number']}: {', '.join(facts['agents'])}")
        elif kind == "child":
            progress = standing.agents[facts["agent"]]
            place = f"{facts['agent']} cycle {(progress.cycle or 0) + 1}  {progress.told} of {progress.children}"
            output.words(f"{place:<48}  {fate(facts)}  time left {duration(standing.seconds_left)}")
        elif kind == "published":
            best = standing.agents[facts["agent"]].best
            offers = "nothing: no child succeeded" if facts["individual"] is None else f"{number(best)}"
            output.words(f"{facts['agent']} publishes {offers}")
        elif kind == "tested":
            output.words(f"{facts['agent']} cycle {facts['cycle'] + 1}  test {facts['accuracy']:.4f}")


class AgentsEventView(AgentsView):
    """View that writes the messages of the listener as events."""

    def __init__(self) -> None:
        super().__init__()
        self._stream = EventStream(self._stop)

    def begin(self, session: Session) -> None:
        self.standing.begin(session)
        names = list(self.standing.agents)
        self.show("begin", {"system": session.system.row.name, "agents": names, "cycles": session.cycles})

    def show(self, kind: str, facts: dict[str, Any]) -> None:
        self._stream.write(kind, facts)

    def _stop(self) -> None:
        if self.standing.session is not None:
            self.standing.session.stop()


class AgentsLiveView(AgentsView):
    """View with one live region: progress of each agent, its best accuracy, and the time left."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._region = Region(lambda notice: picture(self.standing, notice), clock)

    def begin(self, session: Session) -> None:
        self.standing.begin(session)
        self._region.start()

    def show(self, kind: str, facts: dict[str, Any]) -> None:
        if kind == "tested":
            self._region.say(f"{facts['agent']} cycle {facts['cycle'] + 1}: test {facts['accuracy']:.4f}")
        else:
            self._region.refresh(now=kind == "published")

    def say(self, text: str) -> None:
        self._region.say(text)

    def end(self) -> None:
        self._region.end()


def choose(*, json: bool) -> AgentsView:
    """The view for this output."""
    return fitting(json=json, events=AgentsEventView, live=AgentsLiveView, lines=AgentsView)


def picture(standing: AgentsProgress, notice: str = "") -> RenderableType:
    """Contents of the live region."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    line = progress_bar(standing.share) + Text(f"  {standing.done} of {standing.wanted} children  ")
    line.append(f"time left {duration(standing.seconds_left)}")
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("agent", "cycle", "children", "kept", "failed", "best", "state"):
        table.add_column(name, justify="left" if name in ("agent", "state") else "right", no_wrap=True)
    shown = rows(standing)
    for progress in shown:
        cells = [
            progress.name,
            f"{min(progress.ended, progress.goal)} of {progress.goal}",
            f"{progress.told} of {progress.children}" if progress.cycle is not None else "",
            str(progress.kept),
            str(progress.failed),
            number(progress.best),
            state(progress),
        ]
        style = "green" if progress.cycle is not None else "" if progress.ended < progress.goal else "bright_black"
        table.add_row(*(Text(output.one_line(cell, 120)) for cell in cells), style=style)
    parts: list[RenderableType] = [Text(head(standing), style="bold"), line, table]
    if len(standing.agents) > len(shown):
        parts.append(Text(f"and {len(standing.agents) - len(shown)} more", style="bright_black"))
    if notice:
        parts.append(Text(output.one_line(notice), style="yellow"))
    return Group(*parts)


def rows(standing: AgentsProgress) -> list[AgentProgress]:
    """The agents that are shown: running ones first, then waiting ones, then finished ones."""
    order = {"runs": 0, "waits": 1, "done": 2}
    every = sorted(standing.agents.values(), key=lambda progress: order[state(progress)])
    return every[:ROWS]


def state(agent: AgentProgress) -> str:
    """State of an agent as a word."""
    return "runs" if agent.cycle is not None else "waits" if agent.ended < agent.goal else "done"


def head(standing: AgentsProgress) -> str:
    """First line of the view."""
    session = standing.session
    if session is None:
        return ""
    count = len(session.agents)
    agents, cycles = "1 agent" if count == 1 else f"{count} agents", "cycle" if session.cycles == 1 else "cycles"
    return f"system {session.system.row.name}   {agents}, until each has ended {session.cycles} {cycles}"


def fate(facts: dict[str, Any]) -> str:
    """Outcome of a child as text."""
    if facts["fate"] == "failed":
        return f"failed: {facts['reason']}"
    return facts["fate"] if facts["quality"] is None else f"{facts['fate']}  {facts['quality']:.4f}"


def number(value: float | None) -> str:
    """An accuracy as text; a dash where there is none."""
    return "–" if value is None else f"{value:.4f}"

"""Agents while they run: a live table on a terminal, plain lines elsewhere, events for programs."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from evodevo.cli import output
from evodevo.cli.extend.standing import Agent, Standing
from evodevo.cli.standing import duration

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.live import Live

    from evodevo.runs.extend_running import Session

REDRAW_SECONDS = 0.25
ROWS = 24
BAR = 24


class View:
    """Plain lines: one per child, one per published path; no colour, no carriage return."""

    def __init__(self) -> None:
        self.standing = Standing()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    def begin(self, session: Session) -> None:
        """Agents are about to run."""
        self.standing.begin(session)
        output.words(head(self.standing))

    def hear(self, kind: str, facts: dict[str, Any]) -> None:
        """What the listener is told."""
        self.standing.hear(kind, facts)
        self.show(kind, facts)

    def show(self, kind: str, facts: dict[str, Any]) -> None:
        """Show what has changed."""
        standing = self.standing
        if kind == "round":
            output.words(f"round {facts['number']}: {', '.join(facts['agents'])}")
        elif kind == "child":
            one = standing.agents[facts["agent"]]
            place = f"{facts['agent']} cycle {(one.cycle or 0) + 1}  {one.told} of {one.children}"
            output.words(f"{place:<48}  {fate(facts)}  time left {duration(standing.seconds_left)}")
        elif kind == "published":
            best = standing.agents[facts["agent"]].best
            offers = "nothing: no child succeeded" if facts["individual"] is None else f"{number(best)}"
            output.words(f"{facts['agent']} publishes {offers}")
        elif kind == "tested":
            output.words(f"{facts['agent']} cycle {facts['cycle'] + 1}  test {facts['accuracy']:.4f}")

    def say(self, text: str) -> None:
        """A sentence to the user."""
        output.words(text)

    def end(self) -> None:
        """Nothing more is to come."""


class EventView(View):
    """Newline-delimited JSON on stdout: what the listener is told, as it is."""

    def __init__(self) -> None:
        super().__init__()
        self._deaf = False

    def begin(self, session: Session) -> None:
        self.standing.begin(session)
        names = list(self.standing.agents)
        self.show("begin", {"system": session.system.row.name, "agents": names, "cycles": session.cycles})

    def show(self, kind: str, facts: dict[str, Any]) -> None:
        if self._deaf:
            return
        try:
            output.event({"schema": "evodevo.event/1", "type": kind, **facts})
        except output.ReaderGoneError:
            # Nobody listens any more: as with Ctrl-C, what is finished is recorded.
            self._deaf = True
            if self.standing.session is not None:
                self.standing.session.stop()


class LiveView(View):
    """One live region: how far each agent is, its best, and how long it will take."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._drawn = 0.0
        self._drawing = False
        self._live: Live | None = None
        self._said = ""

    def begin(self, session: Session) -> None:
        from rich.console import Console
        from rich.live import Live

        self.standing.begin(session)
        console = Console(stderr=True, highlight=False, markup=False, emoji=False)
        self._live = Live(console=console, auto_refresh=False, redirect_stdout=False, redirect_stderr=False)
        self._live.start()
        self._draw()

    def show(self, kind: str, facts: dict[str, Any]) -> None:
        if kind == "tested":
            self._said = f"{facts['agent']} cycle {facts['cycle'] + 1}: test {facts['accuracy']:.4f}"
        if self._clock() - self._drawn >= REDRAW_SECONDS or kind in ("published", "tested"):
            self._draw()

    def say(self, text: str) -> None:
        if self._live is None:
            output.words(text)
        else:
            self._said = text
            self._draw()

    def end(self) -> None:
        if self._live is not None:
            self._draw()
            self._live.stop()
            self._live = None

    def _draw(self) -> None:
        # ``say`` is called from a signal handler, perhaps in the middle of a drawing; the next one shows it then.
        if self._live is None or self._drawing:
            return
        self._drawing = True
        try:
            self._drawn = self._clock()
            self._live.update(picture(self.standing, self._said), refresh=True)
        finally:
            self._drawing = False


def choose(*, json: bool) -> View:
    """The view that fits: events if they are asked for, the live table on a capable terminal, lines elsewhere."""
    if json:
        return EventView()
    terminal = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
    return LiveView() if terminal and output.has_unicode(sys.stderr) else View()


def picture(standing: Standing, said: str = "") -> RenderableType:
    """The live region."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    full = round(standing.share * BAR)
    bar = Text("━" * full, style="green") + Text("━" * (BAR - full), style="bright_black")
    line = bar + Text(f"  {standing.done} of {standing.wanted} children  ")
    line.append(f"time left {duration(standing.seconds_left)}")
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("agent", "cycle", "children", "kept", "failed", "best", "state"):
        table.add_column(name, justify="left" if name in ("agent", "state") else "right", no_wrap=True)
    shown = rows(standing)
    for one in shown:
        cells = [
            one.name,
            f"{min(one.ended, one.goal)} of {one.goal}",
            f"{one.told} of {one.children}" if one.cycle is not None else "",
            str(one.kept),
            str(one.failed),
            number(one.best),
            state(one),
        ]
        style = "green" if one.cycle is not None else "" if one.ended < one.goal else "bright_black"
        table.add_row(*(Text(output.one_line(cell, 120)) for cell in cells), style=style)
    parts: list[RenderableType] = [Text(head(standing), style="bold"), line, table]
    if len(standing.agents) > len(shown):
        parts.append(Text(f"and {len(standing.agents) - len(shown)} more", style="bright_black"))
    if said:
        parts.append(Text(output.one_line(said), style="yellow"))
    return Group(*parts)


def rows(standing: Standing) -> list[Agent]:
    """The agents that are shown: those that run first, then those that wait, then those that are done."""
    order = {"runs": 0, "waits": 1, "done": 2}
    every = sorted(standing.agents.values(), key=lambda one: order[state(one)])
    return every[:ROWS]


def state(agent: Agent) -> str:
    """A word on an agent."""
    return "runs" if agent.cycle is not None else "waits" if agent.ended < agent.goal else "done"


def head(standing: Standing) -> str:
    """The first line."""
    session = standing.session
    if session is None:
        return ""
    count = len(session.agents)
    agents, cycles = "1 agent" if count == 1 else f"{count} agents", "cycle" if session.cycles == 1 else "cycles"
    return f"system {session.system.row.name}   {agents}, until each has ended {session.cycles} {cycles}"


def fate(facts: dict[str, Any]) -> str:
    """What became of a child."""
    if facts["fate"] == "failed":
        return f"failed: {facts['reason']}"
    return facts["fate"] if facts["quality"] is None else f"{facts['fate']}  {facts['quality']:.4f}"


def number(value: float | None) -> str:
    """An accuracy; a dash where there is none."""
    return "–" if value is None else f"{value:.4f}"

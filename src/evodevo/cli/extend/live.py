"""Views of running agents: a live table on a terminal, plain lines elsewhere, events for programs."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from evodevo.cli import output
from evodevo.cli.extend.progress import AgentProgress, AgentsProgress
from evodevo.cli.views import EventStream, Region, Shown, fitting, progress_bar
from evodevo.runs.search_progress import duration

if TYPE_CHECKING:
    from rich.console import RenderableType

    from evodevo.multitask.run.run import PlannedCycles, Session

ROWS = 24
WORDS = ("stopping; children that are under way are trained again when it goes on. Ctrl-C: at once.",)
"""Message at the first Ctrl-C."""


class AgentsView(Shown):
    """View with plain lines: one per child, one per published path; no colour, no carriage return."""

    def __init__(self) -> None:
        self.progress = AgentsProgress()

    def begin(self, session: Session) -> None:
        """Start the view, before agents run."""
        self.progress.begin(session)
        output.words(head(self.progress))
        for line in schedule(session):
            output.words(line)

    def handle(self, kind: str, facts: dict[str, Any]) -> None:
        """Handle one message of the listener."""
        self.progress.handle(kind, facts)
        self.show(kind, facts)

    def show(self, kind: str, facts: dict[str, Any]) -> None:
        """Show what has changed."""
        progress = self.progress
        if kind == "round":
            output.words(f"round {facts['number']}: {', '.join(facts['agents'])}")
        elif kind == "transfer":
            output.words(probes(facts))
        elif kind == "child":
            agent = progress.agents[facts["agent"]]
            place = f"{facts['agent']} cycle {(agent.cycle or 0) + 1}  {agent.finished} of {agent.children}"
            output.words(f"{place:<48}  {outcome(facts)}  time left {duration(progress.seconds_left)}")
        elif kind == "published":
            offers = "nothing: no child succeeded" if facts["individual"] is None else number(facts["quality"])
            output.words(f"{facts['agent']} publishes {offers}")
        elif kind == "tested":
            output.words(f"{facts['agent']} cycle {facts['cycle'] + 1}  test {facts['accuracy']:.4f}")


class AgentsEventView(AgentsView):
    """View that writes the messages of the listener as events."""

    def __init__(self) -> None:
        super().__init__()
        self._stream = EventStream(self._stop)

    def begin(self, session: Session) -> None:
        self.progress.begin(session)
        names = list(self.progress.agents)
        self.show("begin", {"system": session.system.row.name, "agents": names, "cycles": session.cycles})
        if session.budget:
            planned = [vars(row) for row in session.planned]
            self.show("schedule", {"budget": session.budget, "planned": planned})

    def show(self, kind: str, facts: dict[str, Any]) -> None:
        self._stream.write(kind, facts)

    def _stop(self) -> None:
        if self.progress.session is not None:
            self.progress.session.stop()


class AgentsLiveView(AgentsView):
    """View with one live region: progress of each agent, its best accuracy, and the time left."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._region = Region(lambda notice: picture(self.progress, notice), clock)

    def begin(self, session: Session) -> None:
        self.progress.begin(session)
        for line in schedule(session):
            output.words(line)
        self._region.start()

    def show(self, kind: str, facts: dict[str, Any]) -> None:
        if kind == "transfer":
            self._region.notify(probes(facts))
        elif kind == "tested":
            self._region.notify(f"{facts['agent']} cycle {facts['cycle'] + 1}: test {facts['accuracy']:.4f}")
        else:
            self._region.refresh(now=kind == "published")

    def notify(self, text: str) -> None:
        self._region.notify(text)

    def end(self) -> None:
        self._region.end()


def choose(*, json: bool) -> AgentsView:
    """The view for this output."""
    return fitting(json=json, events=AgentsEventView, live=AgentsLiveView, lines=AgentsView)


def picture(progress: AgentsProgress, notice: str = "") -> RenderableType:
    """Contents of the live region."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    line = progress_bar(progress.share) + Text(f"  {progress.done} of {progress.wanted} children  ")
    line.append(f"time left {duration(progress.seconds_left)}")
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("agent", "cycle", "children", "kept", "failed", "best", "state"):
        table.add_column(name, justify="left" if name in ("agent", "state") else "right", no_wrap=True)
    shown = rows(progress)
    for agent in shown:
        cells = [
            agent.name,
            f"{min(agent.ended, agent.goal)} of {agent.goal}",
            f"{agent.finished} of {agent.children}" if agent.cycle is not None else "",
            str(agent.kept),
            str(agent.failed),
            number(agent.best),
            state(agent),
        ]
        style = "green" if agent.cycle is not None else "" if agent.ended < agent.goal else "bright_black"
        table.add_row(*(Text(output.one_line(cell, 120)) for cell in cells), style=style)
    parts: list[RenderableType] = [Text(head(progress), style="bold"), line, table]
    if len(progress.agents) > len(shown):
        parts.append(Text(f"and {len(progress.agents) - len(shown)} more", style="bright_black"))
    if notice:
        parts.append(Text(output.one_line(notice), style="yellow"))
    return Group(*parts)


def rows(progress: AgentsProgress) -> list[AgentProgress]:
    """The agents that are shown: running ones first, then waiting ones, then finished ones."""
    order = {"runs": 0, "waits": 1, "done": 2}
    every = sorted(progress.agents.values(), key=lambda agent: order[state(agent)])
    return every[:ROWS]


def state(agent: AgentProgress) -> str:
    """State of an agent as a word."""
    return "runs" if agent.cycle is not None else "waits" if agent.ended < agent.goal else "done"


def head(progress: AgentsProgress) -> str:
    """First line of the view."""
    session = progress.session
    if session is None:
        return ""
    count = len(session.agents)
    agents, cycles = "1 agent" if count == 1 else f"{count} agents", "cycle" if session.cycles == 1 else "cycles"
    return f"system {session.system.row.name}   {agents}, until each has ended {session.cycles} {cycles}"


def schedule(session: Session) -> list[str]:
    """The schedule of a budget as lines; none without a budget."""
    if not session.budget:
        return []
    lines = [f"budget {session.budget}, shared over all cycles; what one leaves goes to later ones:"]
    for row in session.planned:
        cycles = "" if row.cycles == 1 else f"{row.cycles} cycles, each of "
        steps = f"{row.steps:,} steps" if row.steps == row.most_steps else f"{row.steps:,} to {row.most_steps:,} steps"
        span = "" if row.seconds is None else f", about {duration(row.seconds)} a cycle at most"
        lines.append(f"  {row.agent}: {cycles}{_children(row, steps)}{span}")
    return lines


def _children(row: PlannedCycles, steps: str) -> str:
    """Number and steps of the children of a cycle as text."""
    if row.cycles == 1 and row.untrained >= row.children:
        return "the joint root as it is, without a step"
    text = "1 child" if row.children == 1 else f"{row.children} children"
    text += f" of {steps}"
    if row.untrained:
        which = "the first is" if row.untrained == 1 else f"the first {row.untrained} are"
        where = ", of which" if row.cycles == 1 else "; in the first cycle"
        text += f"{where} {which} the joint root as it is, without a step"
    return text


def outcome(facts: dict[str, Any]) -> str:
    """Outcome of a child as text."""
    if facts["fate"] == "failed":
        return f"failed: {facts['reason']}"
    return facts["fate"] if facts["quality"] is None else f"{facts['fate']}  {facts['quality']:.4f}"


def probes(facts: dict[str, Any]) -> str:
    """The best probed paths of an agent as text: ``VitTiny~c probed 3 paths on 500 samples; … VitTiny~a/4 0.21``."""
    if facts["failed"]:
        return f"{facts['agent']}: its probes failed, and parents are drawn uniformly: {facts['failed']}"
    rows = facts["rows"]
    best = ", ".join(f"{row['path']} {row['loss']:.2f}" for row in rows[:3])
    return (
        f"{facts['agent']} probed {len(rows)} paths on {facts['samples']} samples; log-loss in nats: {best} (of the "
        f"classes' frequencies alone {facts['prior']:.2f})"
    )


def number(value: float | None) -> str:
    """An accuracy as text; a dash where there is none."""
    return "–" if value is None else f"{value:.4f}"

"""Progress of a system's agents while they run, from the messages of their listener. No terminal here."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from evodevo.multitask.run.run import Session


@dataclass
class AgentProgress:
    """Progress of one agent.

    Attributes:
        name: Name of the agent.
        children: Number of children in one of its cycles.
        ended: Number of cycles that it has finished.
        goal: Number of cycles that it shall have finished.
        cycle: Number of the current cycle; None between two.
        finished: Number of children of that cycle with a result.
        kept: Number of children of this session that were kept.
        failed: Number of children of this session that failed.
        best: Best validation accuracy so far, 0 to 1; None where there is none.
        root: Whether it is a root, whose one child may take no time or as long as many others.
    """

    name: str
    children: int
    goal: int
    ended: int = 0
    cycle: int | None = None
    finished: int = 0
    kept: int = 0
    failed: int = 0
    best: float | None = None
    root: bool = False

    @property
    def done(self) -> int:
        """Number of children with a result, in the cycles up to the goal."""
        return min(self.ended, self.goal) * self.children + self.finished

    @property
    def wanted(self) -> int:
        """Number of children in all those cycles."""
        return max(self.goal, self.ended) * self.children


class AgentsProgress:
    """Counts and times of running agents.

    Attributes:
        session: Session; None before it begins.
        agents: Progress by name; roots that are created first are included.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.session: Session | None = None
        self.agents: dict[str, AgentProgress] = {}
        self._clock = clock
        self._begun = clock()
        self._finished = 0

    def begin(self, session: Session) -> None:
        """Start counting, before the agents run."""
        from evodevo.multitask.schedule import is_root, past

        self.session, self._begun = session, self._clock()
        system = session.system
        systems = system.store.systems
        before, view, withdrawn = past(system.store, system.row.id), system.view(), system.withdrawn()
        chosen = {agent.id for agent in session.agents}
        for row in system.agents():
            root = is_root(row)
            if row.id not in chosen and not (root and not before.finished(row) and row.id not in withdrawn):
                continue
            cycle = row.settings["cycle"] or {}
            size, count = int(cycle.get("generation_size", 1)), int(cycle.get("samples", 1))
            opened = before.opened(row)
            finished = 0
            if opened is not None:
                finished = len(systems.paths(row.id, opened.number)) - len(systems.open_asks(row.id))
            offered = view.offers.get(row.name)
            self.agents[row.name] = AgentProgress(
                row.name,
                -(-count // size) * size,
                1 if root else session.cycles,
                ended=before.finished(row),
                cycle=None if opened is None else opened.number,
                finished=finished,
                best=None if offered is None else offered.quality,
                root=root,
            )

    def handle(self, kind: str, facts: dict[str, Any]) -> None:
        """Handle one message of the listener."""
        progress = self.agents.get(str(facts.get("agent")))
        if progress is None:
            return
        if kind == "cycle":
            progress.finished = progress.finished if progress.cycle == facts["cycle"] else 0
            progress.cycle = facts["cycle"]
            progress.children = facts.get("children") or progress.children
        elif kind == "child":
            progress.finished += 1
            self._finished += not progress.root
            progress.kept += facts["fate"] == "kept"
            progress.failed += facts["fate"] == "failed"
            if facts["fate"] == "kept" and facts["quality"] is not None:
                progress.best = max(progress.best or 0.0, facts["quality"])
        elif kind == "published":
            progress.ended += facts["individual"] is not None
            if facts["quality"] is not None:
                progress.best = facts["quality"]
            progress.cycle, progress.finished = None, 0
            if progress.root:
                self._begun, self._finished = self._clock(), 0

    @property
    def done(self) -> int:
        """Number of children with a result, those of earlier sessions included."""
        return sum(progress.done for progress in self.agents.values())

    @property
    def wanted(self) -> int:
        """Number of children in all."""
        return sum(progress.wanted for progress in self.agents.values())

    @property
    def share(self) -> float:
        """Done work as a share of all, 0 to 1."""
        return self.done / self.wanted if self.wanted else 1.0

    @property
    def seconds_left(self) -> float | None:
        """Estimated seconds left, at the pace of this session since its last root; None before there is one."""
        left = self.wanted - self.done
        if left <= 0:
            return 0.0
        elapsed = self._clock() - self._begun
        if not self._finished or elapsed <= 0:
            return None
        return left * elapsed / self._finished

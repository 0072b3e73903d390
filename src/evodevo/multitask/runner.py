"""Cycles of several agents at the same time, over one executor."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from evodevo.errors import EvaluationsFailedError, UsageError
from evodevo.multitask.agent import AGENTS, readable
from evodevo.multitask.cycle import Cycle
from evodevo.multitask.dispatch import ChildDispatcher
from evodevo.multitask.library import Library
from evodevo.multitask.recorded import WITHDRAWN
from evodevo.multitask.schedule import Past, Round, is_root, next_round, past, stages
from evodevo.multitask.stored import agent_settings
from evodevo.storage import Lease, Store
from evodevo.storage.systems.base import AgentRow, SystemRow

POLL_SECONDS = 0.5
HEARTBEAT_SECONDS = 5.0
Listener = Callable[[str, dict[str, Any]], None]
"""Function that is called with events: type and JSON-able facts."""


class AgentRunner:
    """The cycles of agents that this process holds, run together.

    Args:
        store: store of the record.
        system: system of the agents.
        leases: agent's id -> the right to write.
        dispatcher: dispatcher to the executor.
        listener: called with events.
        stopped: called between any two steps; True ends the run, which can be resumed.
    """

    def __init__(
        self,
        store: Store,
        system: SystemRow,
        leases: Mapping[str, Lease],
        dispatcher: ChildDispatcher,
        listener: Listener,
        stopped: Callable[[], bool],
    ) -> None:
        self._store, self._system, self._leases = store, system, leases
        self._dispatcher, self._listener, self.stopped = dispatcher, listener, stopped
        self._library = Library(store, system.id)
        self._beat = time.monotonic()

    def rounds(self, agents: Sequence[AgentRow], target: int) -> None:
        """Until each agent has ended ``target`` cycles (a root: one), stage after stage, round after round."""
        for stage in stages(agents):
            while not self.stopped():
                goal = 1 if is_root(stage[0]) else target
                coming = next_round(stage, self._past(), goal)
                if coming is None:
                    break
                self._round(coming)

    def free(self, agents: Sequence[AgentRow], target: int) -> None:
        """Likewise, but each agent begins its next cycle as soon as it ended one, with what is there by then."""
        goals = {agent.id: 1 if is_root(agent) else target for agent in agents}
        active: dict[str, Cycle] = {}
        while not self.stopped():
            before = self._past()
            due = [
                agent
                for agent in agents
                if agent.id not in active and (before.opened(agent) or before.finished(agent) < goals[agent.id])
            ]
            reasons = {}
            for agent in due:
                missing = None if before.opened(agent) else self._missing(agent, None)
                if missing is None:
                    active[agent.id] = self._begin(agent, before, round=None, view=None)
                    self._advance(active[agent.id])
                else:
                    reasons[agent.name] = missing
            if not active:
                # Nothing runs that could publish what these agents lack.
                if reasons:
                    raise UsageError(next(iter(reasons.values())))
                break
            self._poll()
            for name, cycle in list(active.items()):
                if cycle.done:
                    del active[name]
                    if not self._publish(cycle):
                        raise EvaluationsFailedError(_failures(cycle))

    def replay(self, agents: Mapping[str, AgentRow], recorded: Sequence[tuple[str, int | None]]) -> None:
        """Repeat cycles one after another, (agent's name, view) in the order in which they were published.

        Where the view is None, the agent is withdrawn.
        """
        for name, view in recorded:
            if self.stopped():
                return
            if view is None:
                withdraw(self._store, self._leases[agents[name].id], agents[name])
                continue
            cycle = self._begin(agents[name], self._past(), round=None, view=view)
            self._advance(cycle)
            while not cycle.done:
                if self.stopped():
                    return
                self._poll()
            self._publish(cycle)

    # Inside

    def _round(self, coming: Round) -> None:
        for agent in coming.members:
            missing = self._missing(agent, coming.view)
            if missing is not None:
                raise UsageError(missing)
        before = self._past()
        # All begin before the first is published: a run that is killed in between finds the common view.
        cycles = [self._begin(agent, before, round=coming.number, view=coming.view) for agent in coming.members]
        self._listener("round", {"number": coming.number, "agents": [agent.name for agent in coming.members]})
        for cycle in cycles:
            self._advance(cycle)
        empty = []
        for cycle in cycles:  # in agent order, which is that of the publications
            while not cycle.done:
                if self.stopped():
                    return
                self._poll()
            if not self._publish(cycle):
                empty.append(cycle)
        for cycle in empty:
            raise EvaluationsFailedError(_failures(cycle))

    def _begin(self, agent: AgentRow, before: Past, *, round: int | None, view: int | None) -> Cycle:
        opened = before.opened(agent)
        if opened is None:
            number = before.next_number(agent)
            opened = self._store.systems.begin_cycle(self._leases[agent.id], number, round=round, view=view)
        settings = agent_settings(agent)
        self._listener("cycle", {"agent": agent.name, "cycle": opened.number, "view": opened.view})
        lease = self._leases[agent.id]
        return Cycle(self._store, lease, self._library, agent, settings, opened, self._system.seed)

    def _advance(self, cycle: Cycle) -> None:
        cycle.ask()
        self._dispatcher.submit(cycle)

    def _poll(self) -> None:
        for told in self._dispatcher.poll(POLL_SECONDS):
            facts = {"agent": told.cycle.agent.name, "individual": told.child.id, "fate": told.fate}
            self._listener("child", {**facts, "quality": told.answer.quality, "reason": told.answer.reason})
            if not told.cycle.waiting and not told.cycle.done:
                self._advance(told.cycle)
        if time.monotonic() - self._beat > HEARTBEAT_SECONDS:
            self._beat = time.monotonic()
            for lease in self._leases.values():
                # Where a process cannot be observed, its heartbeat alone shows that it lives.
                self._store.heartbeat(lease)

    def _publish(self, cycle: Cycle) -> bool:
        best = cycle.publish()
        self._listener("published", {"agent": cycle.agent.name, "cycle": cycle.row.number, "individual": best})
        return best is not None

    def _missing(self, agent: AgentRow, view: int | None) -> str | None:
        seq = self._store.systems.view_now(self._system.id) if view is None else view
        if is_root(agent):
            return None
        kind, settings = (
            AGENTS.get(agent.kind),
            agent_settings(agent),
        )
        return kind.missing(agent, readable(self._library.view(seq), kind, settings))

    def _past(self) -> Past:
        return past(self._store, self._system.id)


def withdraw(store: Store, lease: Lease, agent: AgentRow) -> int:
    """Offer nothing of an agent any more; returns the publication's seq."""
    store.add_event(lease, WITHDRAWN, agent.id, {"name": agent.name})
    return store.systems.withdraw(lease)


def _failures(cycle: Cycle) -> str:
    results = [child.result for child in cycle.children if child.result is not None]
    failed = [result for result in results if result.state == "failed"]
    why = f"; the last one: {failed[-1].reason}: {failed[-1].detail[-500:]}" if failed else ""
    return f"{cycle.agent.name}: {len(failed)} of {len(results)} children failed, and none has an accuracy{why}"

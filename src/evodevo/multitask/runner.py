"""Cycles of several agents at the same time, over one executor."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from evodevo.errors import EvaluationsFailedError, UsageError
from evodevo.multitask.agent import AGENTS, readable
from evodevo.multitask.budgets.budget import Allowance
from evodevo.multitask.budgets.spending import Spending, recorded
from evodevo.multitask.cycle import Cycle
from evodevo.multitask.library import Library
from evodevo.multitask.recorded import QUALITY, WITHDRAWN, value_of
from evodevo.multitask.schedule import Past, Round, is_joint, is_root, is_trained, next_round, past, stages
from evodevo.multitask.settings import WorkSettings
from evodevo.multitask.stored import agent_settings
from evodevo.search.dispatch import POLL_SECONDS, Dispatcher, Finished, Ticket
from evodevo.search.members import Listener
from evodevo.search.problem import Outcome
from evodevo.search.recorder import Recorder
from evodevo.storage import Lease, Store
from evodevo.storage.systems.base import AgentRow, SystemRow


class AgentRunner:
    """The cycles of agents that this process holds, run together.

    Args:
        store: Store of the records.
        system: System of the agents.
        leases: Agent's id -> write lease of its run.
        dispatcher: Dispatcher of the evaluations.
        work: Limits of one child's evaluation.
        places: Folders of the pool of blobs and of caches, for the workers.
        listener: Function called with the type and the JSON-able facts of each event.
        stopped: Function called between any two steps; True ends the run, which can be resumed.
    """

    def __init__(
        self,
        store: Store,
        system: SystemRow,
        leases: Mapping[str, Lease],
        dispatcher: Dispatcher,
        work: WorkSettings,
        places: Mapping[str, str | None],
        listener: Listener,
        stopped: Callable[[], bool],
    ) -> None:
        self._store, self._system, self._work, self._places = store, system, work, places
        self._dispatcher, self._listener, self.stopped = dispatcher, listener, stopped
        self._recorders = {agent: Recorder(store, lease) for agent, lease in leases.items()}
        self._library = Library(store, system.id)
        self._allowances: dict[tuple[str, int], Allowance] | None = None  # those that were recorded
        self._open: dict[str, Cycle] = {}  # of each child that is being evaluated
        self._probing: dict[str, Cycle] = {}  # of each agent whose probes are being made

    def rounds(self, agents: Sequence[AgentRow], target: int, spending: Spending | None = None) -> None:
        """Run stage after stage, round after round, until each agent has ended ``target`` cycles (a root: one), or the
        budget is used up."""
        for stage in stages(agents):
            while not self.stopped():
                goal = 1 if is_root(stage[0]) else target
                coming = next_round(stage, self._past(), goal)
                if coming is not None and spending is not None:
                    coming = self._allowed(coming, spending)
                if coming is None:
                    break
                self._round(coming)

    def free(self, agents: Sequence[AgentRow], target: int) -> None:
        """As ``rounds``, but each agent begins its next cycle as soon as it has ended one, with what is there then."""
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

    def replay(
        self,
        agents: Mapping[str, AgentRow],
        order: Sequence[tuple[str, int | None]],
        allowances: Mapping[tuple[str, int], Allowance],
    ) -> None:
        """Repeat cycles one after another, (agent's name, view) in the order in which they were published.

        Where the view is None, the agent is withdrawn.

        Args:
            agents: agents of this system by name.
            order: the recorded cycles.
            allowances: (agent's name, number of its cycle) -> what it was allowed; cycles without go by their settings.
        """
        self._allowances = dict(allowances)
        for name, view in order:
            if self.stopped():
                return
            if view is None:
                withdraw(self._store, self._recorders[agents[name].id].lease, agents[name])
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
        # All begin before the first is published: whoever is killed in between finds the view of the others.
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
        if empty:  # after all of them, so that the work of the others is published
            raise EvaluationsFailedError(_failures(empty[0]))

    def _allowed(self, coming: Round, spending: Spending) -> Round | None:
        """The members of a round for which the budget suffices, with their allowances recorded; None without any."""
        before = self._past()
        new = [agent for agent in coming.members if before.opened(agent) is None and is_trained(agent)]
        found = spending.allow(new, self._recorders[new[0].id].lease) if new else {}
        self._allowances = None  # read again
        rest = [agent for agent in coming.members if agent not in new or agent.name in found]
        return replace(coming, members=tuple(rest)) if rest else None

    def _allowance(self, agent: AgentRow, number: int) -> Allowance | None:
        """The recorded allowance of a cycle."""
        if self._allowances is None:
            every = self._store.systems.agents(self._system.id)
            known = recorded(self._store, every).of_cycle
            self._allowances = {cycle: one for cycle, (_, one) in known.items()}
        return self._allowances.get((agent.name, number))

    def _begin(self, agent: AgentRow, before: Past, *, round: int | None, view: int | None) -> Cycle:
        opened, recorder = before.opened(agent), self._recorders[agent.id]
        if opened is None:
            number = before.next_number(agent)
            opened = self._store.systems.begin_cycle(recorder.lease, number, round=round, view=view)
        settings, allowed = agent_settings(agent), self._allowance(agent, opened.number)
        if allowed is not None:
            settings = allowed.applied(settings)
        children = 0 if settings.cycle is None else settings.cycle.children
        facts = {"agent": agent.name, "cycle": opened.number, "view": opened.view, "children": children}
        self._listener("cycle", facts)
        return Cycle(self._store, recorder, self._library, agent, settings, opened, self._system.seed)

    def _advance(self, cycle: Cycle) -> None:
        """Send the children of a cycle that wait for a result and are not being evaluated; before the first, probes."""
        if self._probe(cycle):
            return
        for child in cycle.ask():
            if child.id not in self._open:
                self._open[child.id] = cycle
                ticket, problem = cycle.ticket(child), cycle.problem(child, self._work, self._places)
                resume = self._recorders[cycle.agent.id].checkpoint(ticket)
                genes = child.row.genome_envelope["genes"]
                self._dispatcher.submit(ticket, problem, genes, child.row.seed, resume)

    def _probe(self, cycle: Cycle) -> bool:
        """Send the probes of a cycle where it lacks them; whether it waits for them."""
        ticket = Ticket(f"{cycle.agent.id}/transfer", 0, 1)
        if ticket.individual in self._probing:
            return True
        problem = cycle.probes(self._work, self._places)
        if problem is None:
            return False
        self._probing[ticket.individual] = cycle
        self._listener("probing", {"agent": cycle.agent.name, "task": cycle.agent.task})
        self._dispatcher.submit(ticket, problem, None, 0)
        return True

    def _told(self, cycle: Cycle, outcome: Outcome) -> None:
        """Record the probes of a cycle, and go on with its children."""
        table = cycle.tell_probes(outcome)
        rows = [row.model_dump(mode="json") for row in table.rows]
        facts = {"agent": cycle.agent.name, "samples": table.samples, "prior": table.prior, "rows": rows}
        self._listener("transfer", {**facts, "failed": table.failed})
        self._advance(cycle)

    def _poll(self) -> None:
        for event in self._dispatcher.poll(POLL_SECONDS):
            if event.ticket.individual in self._probing:
                if isinstance(event, Finished):
                    self._told(self._probing.pop(event.ticket.individual), event.outcome)
                continue
            if not isinstance(event, Finished):
                self._recorders[self._open[event.ticket.individual].agent.id].message(event)
                continue
            cycle = self._open.pop(event.ticket.individual)
            recorder = self._recorders[cycle.agent.id]
            child = cycle.tell(event.ticket, recorder.judged(event.ticket, event.outcome))
            assert child.result is not None, "recorded"
            story = child.result.extra
            facts = {"agent": cycle.agent.name, "individual": child.id, "fate": story["fate"]}
            facts["samples"] = (story.get("answer") or {}).get("samples")
            quality = value_of(child.result, QUALITY)
            self._listener("child", {**facts, "quality": quality, "reason": child.result.reason})
            if not cycle.waiting and not cycle.done:
                self._advance(cycle)
        for one in self._recorders.values():
            one.heartbeat()

    def _publish(self, cycle: Cycle) -> bool:
        best = cycle.publish()
        known = None if best is None else self._library.known([best]).get(best)
        facts = {"agent": cycle.agent.name, "cycle": cycle.row.number, "individual": best}
        self._listener("published", {**facts, "quality": None if known is None else known.quality})
        return best is not None

    def _missing(self, agent: AgentRow, view: int | None) -> str | None:
        seq = self._store.systems.view_now(self._system.id) if view is None else view
        if is_root(agent) and not is_joint(agent):
            return None
        kind, settings = AGENTS.get(agent.kind), agent_settings(agent)
        return kind.missing(agent, readable(self._library.view(seq), kind, settings))

    def _past(self) -> Past:
        return past(self._store, self._system.id)


def withdraw(store: Store, lease: Lease, agent: AgentRow) -> int:
    """Withdraw what an agent offers; returns the seq of that publication."""
    store.add_event(lease, WITHDRAWN, agent.id, {"name": agent.name})
    return store.systems.withdraw(lease)


def _failures(cycle: Cycle) -> str:
    results = [child.result for child in cycle.children if child.result is not None]
    failed = [result for result in results if result.state == "failed"]
    why = f"; the last one: {failed[-1].reason}: {failed[-1].detail[-500:]}" if failed else ""
    return f"{cycle.agent.name}: {len(failed)} of {len(results)} children failed, and none has an accuracy{why}"

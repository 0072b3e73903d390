"""A multitask system: open this file first.

µNet (2205.10937), µ4Net (2302.02721); docs/spec/munet.md#stored-system. A system consists of rows of a store: agents,
their publications, and components that never change. This file makes systems, lets agents run, and withdraws tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from evodevo.errors import NotFoundError, UsageError, quoted_list, unknown_name
from evodevo.multitask.agent import AGENTS, PublishedPath, SystemView
from evodevo.multitask.genome import agent_name
from evodevo.multitask.library import Library
from evodevo.multitask.recorded import WITHDRAWN
from evodevo.multitask.rules import whole_settings
from evodevo.multitask.schedule import is_root, past, replay_order
from evodevo.multitask.search.accounts import accounted_parameters
from evodevo.multitask.settings import AgentSettings, SystemSettings
from evodevo.multitask.stored import system_settings
from evodevo.storage import Lease, Store
from evodevo.storage.base import RunState
from evodevo.storage.systems.base import AgentRow, SystemRow

# What only reads a system loads nothing that runs agents, nor numpy.
if TYPE_CHECKING:
    from evodevo.execution.base import Executor
    from evodevo.multitask.budgets.spending import Spending
    from evodevo.multitask.runner import AgentRunner
    from evodevo.search.members import Listener

ROOT_TASK = "root_model"
Schedule = Literal["rounds", "free"]


@dataclass(frozen=True)
class RunResult:
    """The result of a run of agents; an ``interrupted`` one is resumed by the same call."""

    state: Literal["finished", "interrupted"]


class System:
    """A system in a store.

    Args:
        store: store of the record.
        row: the system.
        listener: called with events.
    """

    def __init__(self, store: Store, row: SystemRow, *, listener: Listener | None = None) -> None:
        self.store, self.row = store, row
        self.settings = system_settings(row)
        self.library = Library(store, row.id)
        self._listener = listener or (lambda kind, facts: None)
        self._stop = False

    @classmethod
    def create(cls, store: Store, name: str, *, seed: int = 0, settings: SystemSettings | None = None) -> System:
        """A new system, without agents.

        Raises:
            UsageError: the name is taken.
        """
        plain = (settings or SystemSettings()).model_dump(mode="json")
        store.systems.create_system(name, seed, plain)
        return cls.open(store, name)

    @classmethod
    def open(cls, store: Store, name: str, *, listener: Listener | None = None) -> System:
        """A recorded system by its name, its id, or a unique prefix.

        Raises:
            NotFoundError: none is called so.
        """
        return cls(store, store.systems.find_system(name), listener=listener)

    # Agents

    def agents(self, kinds: Collection[str] | None = None, tasks: Collection[str] | None = None) -> list[AgentRow]:
        """Agents in the order in which they were added, of these classes and tasks; those that were withdrawn too."""
        return [
            agent
            for agent in self.store.systems.agents(self.row.id)
            if (kinds is None or agent.kind in kinds) and (tasks is None or agent.task in tasks)
        ]

    def agent(self, name: str) -> AgentRow:
        """An agent by its name.

        Raises:
            NotFoundError: this system has none.
        """
        agents = {agent.name: agent for agent in self.agents()}
        if name not in agents:
            raise NotFoundError(f"system {self.row.name!r} has no agent {name!r}; it has {quoted_list(agents)}.")
        return agents[name]

    def add_agent(self, kind: str, task: str, settings: AgentSettings) -> AgentRow:
        """Let a class of agents work on a task.

        Args:
            kind: a row of ``AGENTS``.
            task: its name, without ``~`` and ``/``; those of roots are ``root_model/…``.
            settings: settings of the agent; open fields are taken from the system, and recorded with it now.

        Raises:
            UsageError: unknown class, a name that no task may have, or the class has this task already.
        """
        from evodevo.randomness import integer_seed

        if kind not in AGENTS:
            raise unknown_name("class of agents", kind, AGENTS)
        name = checked_name(kind, task, root=settings.root)
        whole = whole_settings(AGENTS.get(kind), self.settings, settings)
        AGENTS.get(kind).check(whole)
        seed = integer_seed(self.row.seed, name)
        self.store.systems.add_agent(self.row.id, name, kind, task, seed, whole.model_dump(mode="json"))
        return self.agent(name)

    def add_root(self, kind: str, how: str, settings: AgentSettings, *, name: str | None = None) -> AgentRow:
        """An agent that makes one path from which others begin.

        Args:
            kind: a row of ``AGENTS``.
            how: origin of the path ("random_init", "pretrain", "checkpoint", "joint").
            settings: settings of the agent.
            name: its name, for example the task that it is trained on; ``how`` if left out.
        """
        options = {**settings.options, "root": how}
        return self.add_agent(
            kind,
            f"{ROOT_TASK}/{name or how}",
            settings.model_copy(update={"root": True, "options": options}),
        )

    # Running

    def run(
        self,
        agents: Sequence[AgentRow],
        cycles: int,
        executor: Executor,
        *,
        schedule: Schedule = "rounds",
        cache: str | None = None,
        spending: Spending | None = None,
    ) -> RunResult:
        """Let agents run until each has ended so many cycles in its life; roots that they lack come first.

        The same call resumes a run that was stopped or killed.

        Args:
            agents: agents of this system, in any order.
            cycles: number of cycles that each is to have ended.
            executor: executor of the children's trainings; the caller closes it.
            schedule: ``rounds``, or ``free``.
            cache: folder of the workers' caches.
            spending: budget of the run, for ``rounds``; None = as many children as the settings of cycles have.

        Raises:
            UsageError: an agent was withdrawn, or lacks what it builds on.
            RunOwnedError: another process holds one of the agents.
            EvaluationsFailedError: no child of an agent ever succeeded.
        """
        chosen = self._with_roots(agents)
        withdrawn = self.withdrawn()
        gone = [agent.name for agent in chosen if agent.id in withdrawn]
        if gone:
            raise UsageError(f"{quoted_list(gone)} was withdrawn; add the task under another name to begin anew.")

        def work(runner: AgentRunner) -> None:
            if schedule == "rounds":
                runner.rounds(chosen, cycles, spending)
            else:
                runner.free(chosen, cycles)

        return self._work(chosen, executor, cache, work)

    def replay(self, other: System, executor: Executor, *, cache: str | None = None) -> RunResult:
        """Repeat all cycles and withdrawals of another system with its recorded views; this one has the same agents
        and seed.

        A replay that was interrupted goes on.

        Raises:
            UsageError: it has not, or has begun otherwise.
        """
        from evodevo.multitask.budgets.spending import recorded as allowances_of

        mine = {agent.name: agent for agent in self.agents()}
        names = {agent.id: agent.name for agent in other.agents()}
        if missing := sorted(set(names.values()) - set(mine)):
            raise UsageError(f"this system lacks the agents {quoted_list(missing)}.")
        recorded, done = other.recorded(), self.recorded()
        if recorded[: len(done)] != done or self.row.seed != other.row.seed:
            raise UsageError("a replay begins with an empty system of the same seed, or goes on with one that it made.")
        known = allowances_of(other.store, other.agents()).of_cycle
        allowances = {cycle: one for cycle, (_, one) in known.items()}
        return self._work(
            list(mine.values()), executor, cache, lambda runner: runner.replay(mine, recorded[len(done) :], allowances)
        )

    def recorded(self) -> list[tuple[str, int | None]]:
        """(agent's name, view) of each cycle that ended, in the order in which they did; None: it was withdrawn."""
        published = self.store.systems.publications(self.row.id)
        return replay_order(past(self.store, self.row.id), published, self.withdrawn())

    def stop(self) -> None:
        """End the run soon; children that are under way are done again when it goes on."""
        self._stop = True

    def withdraw(self, name: str) -> int:
        """Offer nothing of an agent any more; what others use of it stays. Returns the publication's seq.

        Raises:
            NotFoundError: no such agent.
            RunOwnedError: another process holds it.
            UsageError: it was withdrawn already.
        """
        from evodevo.multitask.runner import withdraw

        agent = self.agent(name)
        if self.is_withdrawn(agent):
            raise UsageError(f"{name} was withdrawn already.")
        lease = self.store.acquire(agent.id)
        try:
            return withdraw(self.store, lease, agent)
        finally:
            self.store.release(lease)

    def is_withdrawn(self, agent: AgentRow) -> bool:
        """Whether it was withdrawn; of several agents, ``withdrawn`` says it at once."""
        return bool(self._withdrawn([agent]))

    def withdrawn(self) -> frozenset[str]:
        """Ids of the agents that were withdrawn."""
        return self._withdrawn(self.agents())

    # Reading

    def view(self, seq: int | None = None) -> SystemView:
        """State of the system, now or at an earlier publication."""
        return self.library.view(self.store.systems.view_now(self.row.id) if seq is None else seq)

    def best(self, task: str, *, agent: str | None = None) -> PublishedPath:
        """The path that answers a task: of the agents that offer one, that with the best validation accuracy.

        Args:
            task: its name.
            agent: instead of the best one.

        Raises:
            NotFoundError: no path is offered.
        """
        view = self.view()
        offers = [
            known
            for name, known in view.offers.items()
            if known.path.task == task and known.path.classes and agent in (None, name)
        ]
        if not offers:
            whose = f"agent {agent!r}" if agent else "no agent"
            verb = "offers no path" if agent else "offers a path"
            raise NotFoundError(f"{whose} of system {self.row.name!r} {verb} for task {task!r}.")
        return max(offers, key=lambda offer: -1.0 if offer.quality is None else offer.quality)

    def accounts(self, seq: int | None = None) -> dict[str, float]:
        """Agent's name -> parameters that its published path answers for; their sum is that of distinct parameters."""
        view = self.view(seq)
        return {name: accounted_parameters(offer.sizes, view.locks, name) for name, offer in view.offers.items()}

    # Inside

    def _withdrawn(self, agents: Sequence[AgentRow]) -> frozenset[str]:
        # The event alone would not do: a process killed after it withdrew nothing.
        now = self.store.systems.visible(self.row.id, self.store.systems.view_now(self.row.id))
        silent = [agent.id for agent in agents if agent.name not in now]
        return frozenset(event.run_id for event in self.store.systems.events_of(silent, WITHDRAWN) if event.run_id)

    def _with_roots(self, agents: Sequence[AgentRow]) -> list[AgentRow]:
        chosen = {agent.id for agent in agents}
        kinds = {agent.kind for agent in agents}
        every = self.agents()
        if unknown := [agent.name for agent in agents if agent.id not in {row.id for row in every}]:
            raise NotFoundError(f"system {self.row.name!r} has no agents {quoted_list(unknown)}.")
        before, withdrawn = past(self.store, self.row.id), self.withdrawn()
        lacking = [
            agent for agent in every if is_root(agent) and not before.finished(agent) and agent.id not in withdrawn
        ]
        chosen |= {agent.id for agent in lacking if any(AGENTS.get(kind).reads(agent) for kind in kinds)}
        return [agent for agent in every if agent.id in chosen]

    def _work(
        self, agents: Sequence[AgentRow], executor: Executor, cache: str | None, work: Callable[[AgentRunner], None]
    ) -> RunResult:
        from evodevo.multitask.runner import AgentRunner
        from evodevo.search.dispatch import Dispatcher

        self._stop = False
        places = {"blobs": self.store.blobs_address, "cache": cache}
        limits = self.settings.work
        dispatcher = Dispatcher(executor, limits.retries)
        with ExitStack() as held:
            leases: dict[str, Lease] = {}
            for agent in agents:
                leases[agent.id] = self.store.acquire(agent.id)
                held.callback(self.store.release, leases[agent.id])
                self.store.keep_alive(leases[agent.id])
            held.callback(dispatcher.cancel_all)
            self._note(leases, "running")
            runner = AgentRunner(
                self.store, self.row, leases, dispatcher, limits, places, self._listener, lambda: self._stop
            )
            work(runner)
            state: Literal["finished", "interrupted"] = "interrupted" if self._stop else "finished"
            self._note(leases, state)
        return RunResult(state)

    def _note(self, leases: Mapping[str, Lease], state: RunState) -> None:
        for name, lease in leases.items():
            if self.store.run(name).state != state:
                self.store.finish_run(lease, state)


def checked_name(kind: str, task: str, *, root: bool = False) -> str:
    """The name of an agent.

    Args:
        kind: its class.
        task: without ``~`` and ``/``.
        root: its task is ``root_model/…``.

    Raises:
        UsageError: a name that no task may have.
    """
    try:
        if "/" in task and not root:
            raise ValueError(f"{task!r} is no name of a task; call it {task.replace('/', '_').strip('_')!r}")
        return agent_name(kind, task)
    except ValueError as error:
        raise UsageError(f"{error}.") from None

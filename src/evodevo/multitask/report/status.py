"""The status of a system: best path of each task, its cost, shared components, running agents; see ``status_of``.

Source: docs/spec/munet.md#accounted-parameters. Everything is of one moment and read at once; nothing
here loads numpy or torch. Test accuracy is shown where it was measured, and orders nothing.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from evodevo.multitask.recorded import ACCURACY, CHILD, QUALITY, SCORE, TEST, WITHDRAWN, deciding, value_of
from evodevo.multitask.search.accounts import Locks, accounted_parameters
from evodevo.storage import Store
from evodevo.storage.systems.base import ComponentRow, SystemRow
from evodevo.storage.systems.status import ChildCounts, SystemMoment

State = Literal["new", "offers", "withdrawn"]


@dataclass(frozen=True)
class Offer:
    """The path that an agent offers. Parameters count each component once.

    Attributes:
        path: "agent/number".
        quality: best validation accuracy, 0 to 1; None for a root that answers no task.
        score: score by which it was chosen: accuracy with its discount at the time of its training.
        test: accuracy on test data, 0 to 1; None where it was not measured.
        parameters: parameters of its own components, without the inner paths of a multipath one.
        activated: parameters of its own components and of all paths inside it.
        trained: parameters of the components that were trained for this very path.
        made: parameters of those of its components that its agent made.
        accounted: number of its accounted parameters; shared ones are split evenly among the agents that use them.
        flops: FLOPs of one sample.
        inside: inner paths of a multipath one, the main path first, "agent/number".
    """

    path: str
    quality: float | None
    score: float | None
    test: float | None
    parameters: int
    activated: int
    trained: int
    made: int
    accounted: float
    flops: float | None
    inside: tuple[str, ...]

    @property
    def trained_share(self) -> float | None:
        """Share of the parameters that a sample activates which were trained for this path, 0 to 1."""
        return self.trained / self.activated if self.activated else None


@dataclass(frozen=True)
class AgentStatus:
    """One agent.

    Attributes:
        name, kind, task: "Class~task" and its halves.
        root: whether it makes one path and then runs no more.
        state: "new" offers nothing yet.
        cycles: number of cycles that ended with a path.
        open: number of its current cycle; None between cycles.
        by_cycle: number of a cycle -> numbers of its children.
        holder: the process that runs it now.
        offer: the path that it offers.
        id: id of its run.
    """

    name: str
    kind: str
    task: str
    root: bool
    state: State
    cycles: int
    open: int | None
    by_cycle: Mapping[int, ChildCounts]
    holder: str | None
    offer: Offer | None
    id: str

    @property
    def children(self) -> ChildCounts:
        """Numbers of children of all its cycles."""
        return sum(self.by_cycle.values(), ChildCounts())

    @property
    def last(self) -> ChildCounts:
        """Numbers of children of its last cycle."""
        return self.by_cycle[max(self.by_cycle)] if self.by_cycle else ChildCounts()

    @property
    def quality(self) -> float | None:
        """Validation accuracy of its offer; None without one."""
        return None if self.offer is None else self.offer.quality


@dataclass(frozen=True)
class TaskStatus:
    """One task, of which several agents may offer a path.

    Attributes:
        name: name of the task.
        agents: names of its agents, in the order in which they were added.
        best: agent with the best validation accuracy; of equal ones the first to publish.
        offer: offer of the best agent.
        added: parameters of the task's published paths that its own agents made.
        shared: parameters that others made, inner paths of multipath ones included.
        accounted: number of parameters accounted to its agents together.
    """

    name: str
    agents: tuple[str, ...]
    best: str | None
    offer: Offer | None
    added: int
    shared: int
    accounted: float


@dataclass(frozen=True)
class Sharing:
    """Components of one agent in the path that another agent, or the same one, offers: their number, and their
    parameters."""

    user: str
    maker: str
    components: int
    parameters: int


@dataclass(frozen=True)
class SystemStatus:
    """A system at one moment.

    Attributes:
        system: its row.
        view: number of the last publication.
        tasks: tasks in the order in which they were added.
        agents: roots included, in the order in which they were added.
        distinct: parameters of all published paths, each component once; the agents' accounts add up to it.
        pinned: further parameters that only multipath paths use, since their agents published other paths.
        sharing: uses of components between agents, by user in agent order.
    """

    system: SystemRow
    view: int
    tasks: tuple[TaskStatus, ...]
    agents: tuple[AgentStatus, ...]
    distinct: int
    pinned: int
    sharing: tuple[Sharing, ...]

    @property
    def per_task(self) -> float | None:
        """Distinct parameters, the root's included, divided by the tasks that are answered."""
        answered = sum(task.best is not None for task in self.tasks)
        return self.distinct / answered if answered else None

    @property
    def children(self) -> ChildCounts:
        """Numbers of children of all agents."""
        return sum((agent.children for agent in self.agents), ChildCounts())

    def agent(self, name: str) -> AgentStatus:
        """One of them by its name."""
        return next(agent for agent in self.agents if agent.name == name)


def status_of(store: Store, system: SystemRow) -> SystemStatus:
    """The present status of a system, by a fixed number of queries of the store, whatever the system's size."""
    now = store.systems.moment(system.id, CHILD, WITHDRAWN)
    holders = {run: str(owner) for run, owner in store.owners().items()}
    children: dict[str, dict[int, ChildCounts]] = defaultdict(dict)
    for (agent, number), counts in now.children.items():
        children[agent][number] = counts
    opened = {cycle.agent_id: cycle.number for cycle in now.cycles if cycle.state == "open"}
    locks = _locks(now)
    agents = []
    for row in now.agents:
        agents.append(
            AgentStatus(
                row.name,
                row.kind,
                row.task,
                bool(row.settings.get("root")),
                "offers" if row.name in now.offers else "withdrawn" if row.id in now.withdrawn else "new",
                cycles=sum(publication.path_id is not None for publication in now.published.get(row.id, ())),
                open=opened.get(row.id),
                by_cycle=children[row.id],
                holder=holders.get(row.id),
                offer=_offer(now, row.name, locks) if row.name in now.offers else None,
                id=row.id,
            )
        )
    published = _distinct(now.parts[individual] for individual in _offered(now).values())
    distinct = sum(published.values())
    return SystemStatus(
        system,
        max((row.seq for rows in now.published.values() for row in rows), default=0),
        tuple(_tasks(now, agents)),
        tuple(agents),
        distinct,
        sum(_distinct(now.parts.values()).values()) - distinct,
        tuple(_sharing(now)),
    )


def _offer(now: SystemMoment, agent: str, locks: Locks) -> Offer:
    individual = _offered(now)[agent]
    parts, inside = now.parts[individual], now.subpaths[individual]
    own = {part.id: part.parameters for part in parts}
    results = now.evaluations[individual]
    result = deciding(results)
    measured = [evaluation for evaluation in results if evaluation.fidelity == TEST and evaluation.state == "done"]
    names = {row.id: row.name for row in now.agents}
    return Offer(
        f"{agent}/{now.paths[individual].number}",
        value_of(result, QUALITY),
        value_of(result, SCORE),
        value_of(measured[-1], ACCURACY) if measured else None,
        sum(own.values()),
        sum(_distinct([parts, *(now.parts[path] for path in inside)]).values()),
        sum(part.parameters for part in parts if part.path_id == individual),
        sum(own[part.id] for part in parts if names[part.agent_id] == agent),
        accounted_parameters(own.items(), locks, agent),
        None if result is None else result.cost.get("flops"),
        tuple(f"{names[now.paths[path].agent_id]}/{now.paths[path].number}" for path in inside),
    )


def _tasks(now: SystemMoment, agents: Sequence[AgentStatus]) -> Iterator[TaskStatus]:
    working: dict[str, list[AgentStatus]] = defaultdict(list)
    for agent in agents:
        if not agent.root:
            working[agent.task].append(agent)
    order = {name: place for place, name in enumerate(now.offers)}
    individuals, names = _offered(now), {agent.id: agent.name for agent in now.agents}
    for task, every in working.items():
        offering = sorted((agent for agent in every if agent.offer), key=lambda agent: order[agent.name])
        best = max(offering, key=lambda agent: -1.0 if agent.quality is None else agent.quality, default=None)
        used = [individuals[agent.name] for agent in offering]
        used += [sub for individual in used for sub in now.subpaths[individual]]
        own = {agent.name for agent in every}
        parts = {part.id: part for individual in used for part in now.parts[individual]}.values()
        added = sum(part.parameters for part in parts if names[part.agent_id] in own)
        yield TaskStatus(
            task,
            tuple(agent.name for agent in every),
            None if best is None else best.name,
            None if best is None else best.offer,
            added,
            sum(part.parameters for part in parts) - added,
            math.fsum(agent.offer.accounted for agent in offering if agent.offer),
        )


def _sharing(now: SystemMoment) -> Iterator[Sharing]:
    individuals, names = _offered(now), {agent.id: agent.name for agent in now.agents}
    for user in (agent.name for agent in now.agents if agent.name in individuals):
        makers: dict[str, dict[str, int]] = defaultdict(dict)
        for part in now.parts[individuals[user]]:
            makers[names[part.agent_id]][part.id] = part.parameters
        for maker, parts in makers.items():
            yield Sharing(user, maker, len(parts), sum(parts.values()))


def _locks(now: SystemMoment) -> dict[str, set[str]]:
    locks: dict[str, set[str]] = defaultdict(set)
    for agent, individual in _offered(now).items():
        for part in now.parts[individual]:
            locks[part.id].add(agent)
    return locks


def _offered(now: SystemMoment) -> dict[str, str]:
    return {agent: individual.path_id for agent, individual in now.offers.items() if individual.path_id is not None}


def _distinct(paths: Iterable[Iterable[ComponentRow]]) -> dict[str, int]:
    return {part.id: part.parameters for parts in paths for part in parts}

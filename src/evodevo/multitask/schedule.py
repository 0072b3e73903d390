"""The order of cycles. ``rounds``: all agents of a stage do one cycle with one view, and publish in agent order, so
that the system is the same with 1 or N workers. ``free``: each begins with the latest publications; its views are
recorded.

Source: docs/spec/munet.md#schedule.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from evodevo.errors import UsageError, quoted_list
from evodevo.multitask.agent import AGENTS
from evodevo.multitask.settings import JOINT
from evodevo.storage import Store
from evodevo.storage.systems.base import AgentRow, CycleRow, Publication


@dataclass(frozen=True)
class Round:
    """Cycles that share one view.

    Attributes:
        number: number of the round, counted over the whole system.
        view: number of the last publication in their common view.
        members: agents that take part and have not published yet, in agent order.
    """

    number: int
    view: int
    members: tuple[AgentRow, ...]


@dataclass(frozen=True)
class Past:
    """The history of a system.

    Attributes:
        cycles: cycles of all agents, in the order in which they began.
        fruitful: (agent's id, number) of the cycles that published a path.
        view_now: number of the last publication.
    """

    cycles: tuple[CycleRow, ...]
    fruitful: frozenset[tuple[str, int]]
    view_now: int

    def finished(self, agent: AgentRow) -> int:
        """Number of cycles that an agent has ended with a path; one in which every child failed does not count."""
        return sum(owner == agent.id for owner, _ in self.fruitful)

    def opened(self, agent: AgentRow) -> CycleRow | None:
        """The cycle that an agent is in."""
        return next((cycle for cycle in self.cycles if cycle.agent_id == agent.id and cycle.state == "open"), None)

    def next_number(self, agent: AgentRow) -> int:
        """Number of an agent's next cycle."""
        return 1 + max((cycle.number for cycle in self.cycles if cycle.agent_id == agent.id), default=-1)


def past(store: Store, system_id: str) -> Past:
    """History of a system so far."""
    published = store.systems.publications(system_id)
    fruitful = frozenset((p.agent_id, p.cycle) for p in published if p.cycle is not None and p.path_id is not None)
    cycles = store.systems.cycles(system_id=system_id)
    return Past(tuple(cycles), fruitful, published[-1].seq if published else 0)


def stages(agents: Sequence[AgentRow]) -> list[list[AgentRow]]:
    """Roots first, then those that begin with other roots, then agents by the stage of their class, each in agent
    order."""
    number = {agent.id: AGENTS.get(agent.kind).stage for agent in agents}
    number |= {agent.id: -1 if is_joint(agent) else -2 for agent in agents if is_root(agent)}
    return [[agent for agent in agents if number[agent.id] == stage] for stage in sorted(set(number.values()))]


def is_root(agent: AgentRow) -> bool:
    """Whether the agent makes one path from which others begin, and then rests."""
    return bool(agent.settings.get("root"))


def is_joint(agent: AgentRow) -> bool:
    """Whether the agent is a root that several tasks train together."""
    return bool(agent.settings.get("options", {}).get("root") == JOINT)


def has_learned(root: AgentRow, task_key: str | None) -> bool:
    """Whether a joint root is trained by the samples with this key."""
    tasks = root.settings.get("options", {}).get("together", ())
    return task_key is not None and any(task["task_key"] == task_key for task in tasks)


def is_trained(agent: AgentRow) -> bool:
    """Whether a cycle of the agent trains anything: roots at random or from files do not."""
    return not is_root(agent) or is_joint(agent) or agent.settings["options"].get("root") == "pretrain"


def next_round(agents: Sequence[AgentRow], before: Past, target: int) -> Round | None:
    """The round to resume, or the next one; None where all agents have ended ``target`` cycles.

    A round that was interrupted keeps its view. All its cycles begin before the first of them is published, so an
    agent without one joins it only while nothing was published since its view.

    Args:
        agents: agents of one stage.
        before: history of the system.
        target: number of cycles that each agent is to have ended.

    Raises:
        UsageError: an agent is in a cycle without a round.
    """
    opened = {agent.id: row for agent in agents if (row := before.opened(agent)) is not None}
    free = [agent.name for agent in agents if agent.id in opened and opened[agent.id].round is None]
    if free:
        raise UsageError(f"{quoted_list(free)} began cycles without rounds; finish them with the schedule 'free'.")
    due = [agent for agent in agents if agent.id not in opened and before.finished(agent) < target]
    newest = max((cycle.round for cycle in before.cycles if cycle.round is not None), default=0)
    if not opened:
        return Round(newest + 1, before.view_now, tuple(due)) if due else None
    number = min(cycle.round for cycle in opened.values() if cycle.round is not None)
    view = next(cycle.view for cycle in opened.values() if cycle.round == number)
    members = {name for name, cycle in opened.items() if cycle.round == number}
    if number == newest and view == before.view_now:
        members |= {agent.id for agent in due}
    return Round(number, view, tuple(agent for agent in agents if agent.id in members))


def replay_order(
    before: Past, published: Sequence[Publication], withdrawn: Collection[str] = ()
) -> list[tuple[str, int | None]]:
    """(agent's name, view) of each cycle in the order in which they were published: that repeats an asynchronous run.

    Args:
        before: history of the system.
        published: all its publications.
        withdrawn: ids of agents that were; the view of their last publication, which withdrew them, is None. A cycle
            that ended with it is no part of the order.
    """
    rows = {(cycle.agent_id, cycle.number): cycle for cycle in before.cycles}
    last = {publication.agent_id: publication.seq for publication in published}
    order: list[tuple[str, int | None]] = []
    for publication in published:
        if publication.cycle is None or (
            publication.agent_id in withdrawn and publication.seq == last[publication.agent_id]
        ):
            order.append((publication.agent, None))
        else:
            order.append((publication.agent, rows[publication.agent_id, publication.cycle].view))
    return order

"""What a run of agents has used of its budget, and what its next cycles may use: recorded before they begin.

All allowances of a round are one event, which is committed before the first of its cycles begins. So a killed run goes
on with the same ones, and a replay repeats them, whatever the clock says by then.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evodevo.errors import UsageError
from evodevo.multitask.agent import AGENTS
from evodevo.multitask.budgets.budget import (
    FEWEST,
    OF_JOINT,
    OF_ROOT,
    PERIODS,
    Allowance,
    RunBudget,
    allowance,
    of_root,
    period_of,
)
from evodevo.multitask.hyperparameters import SHIFT
from evodevo.multitask.ledger import children_of
from evodevo.multitask.schedule import Past, has_learned, is_joint, is_root, is_trained, past
from evodevo.multitask.stored import agent_settings
from evodevo.multitask.training.values import PathTrainingSettings
from evodevo.settings import validate
from evodevo.storage import Lease, Store
from evodevo.storage.systems.base import AgentRow, CycleRow

ALLOWED = "agents.allowed"
"""Type of the event with the allowances of a round."""


@dataclass(frozen=True)
class BudgetCourse:
    """One run under a budget, which one command begins and the same command goes on with.

    Attributes:
        number: number of the run in its system, from 1.
        given: the budget as it was given.
        target: number of cycles that each agent is to have ended.
        used: what was used before the last recorded round, in units of the budget.
        cycles: (agent's name, number) of the cycles of that round.
    """

    number: int
    given: str
    target: int
    used: float = 0.0
    cycles: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True)
class Recorded:
    """All allowances of a system.

    Attributes:
        of_cycle: (agent's name, number of its cycle) -> number of the run, allowance; the last one that was recorded.
        last: the last run; None before any.
    """

    of_cycle: Mapping[tuple[str, int], tuple[int, Allowance]]
    last: BudgetCourse | None


def recorded(store: Store, agents: Sequence[AgentRow]) -> Recorded:
    """The allowances that were recorded with the agents of a system.

    Raises:
        UsageError: a record that evodevo does not write.
    """
    found: dict[tuple[str, int], tuple[int, Allowance]] = {}
    last: BudgetCourse | None = None
    for event in store.systems.events_of([agent.id for agent in agents], ALLOWED):
        of_cycles = event.fact("cycles", _of_cycles)
        last = BudgetCourse(
            event.fact("run", int),
            event.fact("budget", str),
            event.fact("target", int),
            event.fact("used", float),
            tuple((name, number) for name, number, _ in of_cycles),
        )
        for name, number, values in of_cycles:
            found[name, number] = last.number, validate(Allowance, values, what=f"the allowance of {name}")
    return Recorded(found, last)


def _of_cycles(cycles: Any) -> list[tuple[str, int, Any]]:
    return [(name, int(number), values) for name, (number, values) in cycles.items()]


def course_of(
    store: Store,
    system_id: str,
    every: Sequence[AgentRow],
    chosen: Collection[AgentRow],
    given: str,
    cycles: int | None,
) -> BudgetCourse:
    """The run that this budget begins, or goes on with: the last one of the system where it was given the same budget
    and one of the agents has not ended its cycles.

    Args:
        store: store of the record.
        system_id: the system.
        every: all its agents.
        chosen: agents that run.
        given: the budget as it was given.
        cycles: number of cycles that each is to have ended; None = one more than any of them has.
    """
    before, known = past(store, system_id), recorded(store, every)
    last = known.last
    ended = [before.finished(agent) for agent in chosen]
    if last is not None and last.given == given and cycles in (None, last.target) and min(ended) < last.target:
        return last
    target = max(ended) + 1 if cycles is None else cycles
    return BudgetCourse(1 if last is None else last.number + 1, given, target)


def roots_to_train(every: Sequence[AgentRow], chosen: Sequence[AgentRow], before: Past) -> list[AgentRow]:
    """Roots of the chosen agents that are trained and have not ended their cycle."""
    return [
        agent
        for agent in every
        if is_root(agent)
        and is_trained(agent)
        and not before.finished(agent)
        and any(AGENTS.get(one.kind).reads(agent) for one in chosen)
    ]


def steps_of(store: Store, cycle: CycleRow) -> int:
    """Number of steps that the children of a cycle have made."""
    results = [child.result for child in children_of(store, cycle) if child.result is not None]
    answers = [result.extra.get("answer") or {} for result in results]
    return sum(int(answer.get("steps") or 0) for answer in answers)


class Spending:
    """The budget of a run while it is used.

    Args:
        store: store of the record.
        system_id: the system.
        every: all its agents.
        chosen: agents that run, without roots.
        budget: the budget.
        course: the run.
        pace: agent's id -> seconds of a step of a child, all included; for a budget in seconds.
        workers: number of children at a time.
        clock: seconds, from any moment.
        begun: time of the clock at which the run began; None = now.
    """

    def __init__(
        self,
        store: Store,
        system_id: str,
        every: Sequence[AgentRow],
        chosen: Sequence[AgentRow],
        budget: RunBudget,
        course: BudgetCourse,
        *,
        pace: Mapping[str, float],
        workers: int,
        clock: Callable[[], float] = time.monotonic,
        begun: float | None = None,
    ) -> None:
        self.budget, self.course = budget, course
        self._store, self._system_id, self._every, self._chosen = store, system_id, every, chosen
        self._pace, self._workers, self._clock = pace, workers, clock
        self._begun = clock() if begun is None else begun
        self._resumed = bool(course.cycles)
        before = [cycle for agent, cycle in self._begun_cycles() if (agent.name, cycle.number) in course.cycles]
        results = [child.result for cycle in before for child in children_of(store, cycle)]
        self._earlier = course.used + sum(result.seconds or 0.0 for result in results if result is not None) / workers

    @property
    def open_cycles(self) -> bool:
        """Whether a cycle of this run has begun and not ended."""
        return any(cycle.state == "open" for _, cycle in self._begun_cycles())

    def used(self) -> float:
        """What was used so far, in units of the budget; cycles that are open count with what they may use yet."""
        promised = sum(self._cost(agent, steps) for agent, steps in self._promised())
        if self.budget.unit == "seconds":
            return self._earlier + self._clock() - self._begun + promised
        return promised + sum(steps_of(self._store, cycle) for _, cycle in self._begun_cycles())

    def allow(self, members: Sequence[AgentRow], lease: Lease) -> dict[str, Allowance]:
        """Agent's name -> allowance of the cycle that it is about to begin, recorded now; an agent that is left out
        goes on no more, since the budget is used up.

        Args:
            members: agents of one round that are in no cycle and count.
            lease: lease of one of them, with which the event is written.
        """
        before, known = past(self._store, self._system_id), recorded(self._store, self._every)
        numbers = {agent.name: before.next_number(agent) for agent in members}
        promised = {
            name: known.of_cycle[name, number][1]
            for name, number in numbers.items()
            if known.of_cycle.get((name, number), (0, None))[0] == self.course.number
        }
        if promised:  # killed after they were recorded, and before all these cycles had begun
            return promised
        used = self.used()
        found = {
            name: one for name, one in self._plan(members, before, self.budget.amount - used, begun=True).items() if one
        }
        if found:
            facts = {
                "run": self.course.number,
                "budget": self.course.given,
                "target": self.course.target,
                "used": used,
                "cycles": {name: [numbers[name], one.model_dump(mode="json")] for name, one in found.items()},
            }
            self._store.add_event(lease, ALLOWED, self._system_id, facts)
        return found

    def schedule(self) -> list[tuple[str, int, Allowance]]:
        """(agent's name, number of cycles, allowance of each) of what is to come, as far as it can be known before it
        runs: what a cycle leaves goes to later ones.

        Raises:
            UsageError: a budget that was not begun is too short for one child in each cycle; the message has the
                shortest one.
        """
        before = past(self._store, self._system_id)
        roots, agents = self._roots(before), [agent for agent in self._chosen if self._left(agent, before)]
        plan = self._plan([*roots, *agents], before, self.budget.amount - self.used(), begun=self._resumed)
        places = sum(self._left(agent, before) for agent in agents)
        if not self._resumed and any(one is None for one in plan.values()):
            of_roots = sum(self._cost(root, of_root(0, _looks(root), _tasks(root)).total) for root in roots)
            children = places * max(self._cost(agent, period_of(_looks(agent))) for agent in agents)
            # Of a budget that leaves the children enough, roots have their part.
            part = sum(_part(root) for root in roots) / max(1, len(roots))
            shortest = self.used() + max(of_roots + children, children / (1 - part))
            what = f"{places} cycles" if places > 1 else "a cycle"
            raise UsageError(
                f"a budget of {self.course.given} is too short for one child of {FEWEST} steps in each of {what}; the "
                f"shortest one is {self.budget.words(shortest)}."
            )
        rows = [(root.name, 1) for root in roots] + [(agent.name, self._left(agent, before)) for agent in agents]
        return [(name, cycles, one) for name, cycles in rows if (one := plan[name]) is not None]

    def seconds(self, name: str, allowed: Allowance) -> float | None:
        """Forecast of the wall time of one cycle, at most; None where no pace was measured."""
        agent = next(agent for agent in self._every if agent.name == name)
        return allowed.total * self._pace[agent.id] / self._workers if agent.id in self._pace else None

    # Inside

    def _plan(
        self, members: Sequence[AgentRow], before: Past, left: float, *, begun: bool
    ) -> dict[str, Allowance | None]:
        """Allowances of members out of what is left; equal shares for all cycles to come, but for roots' part."""
        roots = [agent for agent in members if is_root(agent)]
        plan: dict[str, Allowance | None] = {}
        for root in roots:
            plan[root.name] = of_root(self._steps(root, left * _part(root) / len(roots)), _looks(root), _tasks(root))
        left -= sum(self._cost(root, one.total) for root in roots if (one := plan[root.name]) is not None)
        places = sum(self._left(agent, before) for agent in self._chosen)
        agents = [agent for agent in members if not is_root(agent)]
        # Steps do not tell workers apart; seconds are lost where one of them has nothing to do.
        together = 1 if self.budget.unit == "steps" else -(-self._workers // max(1, len(agents)))
        for agent in members:
            if is_root(agent):
                continue
            cycle = agent_settings(agent).cycle
            assert cycle is not None, "recorded with the agent"
            looks = _looks(agent)
            share = self._steps(agent, max(0.0, left) / places)
            least, untrained = self._begin_differently(agent, before)
            if not untrained:
                least = max(1, min(least, int(share // (PERIODS * period_of(looks)))))
            plan[agent.name] = allowance(
                share, cycle.children, cycle.generation_size, looks, together, least, untrained
            )
            if plan[agent.name] is None and begun and self.budget.unit == "seconds" and not before.finished(agent):
                # The clock has gone on: no agent is left without a path because others took longer than measured.
                plan[agent.name] = allowance(period_of(looks), 1, 1, looks)
        return plan

    def _begin_differently(self, agent: AgentRow, before: Past) -> tuple[int, int]:
        """Children of a cycle that are each to be tried, and how many of them make no step.

        Of an agent's first cycle those for which nothing is drawn: where a joint root of its class has learned the task
        that which shares it and those that train copies; else the latter, with images that are shifted and not, and
        where its root is a trained one that from scratch.
        """
        settings = agent_settings(agent)
        assert settings.cycle is not None, "recorded with the agent"
        joint = [root for root in self._every if is_joint(root) and root.kind == agent.kind]
        learned = any(has_learned(root, settings.task_key) for root in joint)
        child = settings.cycle.child
        if before.finished(agent):
            return 1, 0
        if not learned:
            shift = settings.options.get("hyperparameters", {}).get(SHIFT, {})
            left_out = 0 if shift.get("default") else child.unshifted
            roots = [root for root in self._every if is_root(root) and root.kind == agent.kind]
            if all(root.settings["options"].get("root") == "random_init" for root in roots):
                left_out += child.from_scratch
            return max(1, len(child.firsts) - left_out), 0
        trained = len(child.firsts) - child.unshifted - child.from_scratch
        return trained + (child.shared is None), child.untrained

    def _roots(self, before: Past) -> list[AgentRow]:
        """Roots that are to be trained first."""
        lacking = roots_to_train(self._every, self._chosen, before)
        return [root for root in lacking if before.opened(root) is None]

    def _left(self, agent: AgentRow, before: Past) -> int:
        """Number of cycles that an agent has not begun."""
        return max(0, self.course.target - before.finished(agent) - (before.opened(agent) is not None))

    def _begun_cycles(self) -> list[tuple[AgentRow, CycleRow]]:
        """The cycles of this run that have begun."""
        known, agents = recorded(self._store, self._every).of_cycle, {agent.id: agent for agent in self._every}
        cycles = [(agents[cycle.agent_id], cycle) for cycle in self._store.systems.cycles(system_id=self._system_id)]
        return [
            (agent, cycle)
            for agent, cycle in cycles
            if known.get((agent.name, cycle.number), (0, None))[0] == self.course.number
        ]

    def _promised(self) -> list[tuple[AgentRow, int]]:
        """Agents in a cycle with an allowance, and the number of steps that they may make yet."""
        before, known = past(self._store, self._system_id), recorded(self._store, self._every).of_cycle
        opened = [(agent, cycle) for agent in self._every if (cycle := before.opened(agent)) is not None]
        allowed = [(agent, cycle, known.get((agent.name, cycle.number))) for agent, cycle in opened]
        return [
            (agent, max(0, found[1].total - steps_of(self._store, cycle)))
            for agent, cycle, found in allowed
            if found is not None
        ]

    def _cost(self, agent: AgentRow, steps: float) -> float:
        """Steps in units of the budget."""
        return steps if self.budget.unit == "steps" else steps * self._pace[agent.id] / self._at_once(agent)

    def _steps(self, agent: AgentRow, amount: float) -> float:
        """An amount of the budget in steps."""
        return amount if self.budget.unit == "steps" else amount * self._at_once(agent) / self._pace[agent.id]

    def _at_once(self, agent: AgentRow) -> int:
        """Trainings of an agent at a time; a root is one."""
        return 1 if is_root(agent) else self._workers


def _part(root: AgentRow) -> float:
    """Share of what is left of a budget that a root has at most."""
    return 1 / (OF_JOINT if is_joint(root) else OF_ROOT)


def _tasks(root: AgentRow) -> int:
    """Number of tasks that train a root."""
    return max(1, len(root.settings["options"].get("together", ())))


def _looks(agent: AgentRow) -> int:
    training = validate(PathTrainingSettings, agent_settings(agent).training, what=f"training of {agent.name}")
    return training.validations

"""Runs of the agents of a system: which, how often, where; and their results.

As docs/spec/munet.md#schedule has it: roots first, then agents with one path, then those that combine
paths; test data are looked at on request, after the runs, and nothing that selects ever reads what was found.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from evodevo.errors import DiskFullError, UsageError, unknown_name
from evodevo.execution.base import EXECUTORS, Executor
from evodevo.multitask.agent import AGENTS
from evodevo.multitask.budgets.budget import read_budget
from evodevo.multitask.budgets.pace import paces
from evodevo.multitask.budgets.spending import BudgetCourse, Spending, course_of, roots_to_train
from evodevo.multitask.measure import measure
from evodevo.multitask.run.create import open_system
from evodevo.multitask.run.settings import MULTI, twin_settings
from evodevo.multitask.schedule import is_root, past
from evodevo.multitask.stored import agent_settings
from evodevo.multitask.system import Schedule, System
from evodevo.registry import enable_packages
from evodevo.runs.drive import check_execution, create_executor
from evodevo.runs.recipe import ExecutionSettings
from evodevo.runs.tidying import tidied
from evodevo.search.members import Listener
from evodevo.settings import validate
from evodevo.storage import Store
from evodevo.storage.systems.base import AgentRow
from evodevo.tasks.text.token_cache import default_folder

SINGLE = "single"
PRELOAD = ("paths",)
"""Packages that workers import before their first child."""
CHANGEABLE = ("executor", "options", "workers", "devices")
"""Settings of ``execution`` that a run of agents may choose: where children are trained, of which none is recorded."""


@dataclass(frozen=True)
class PlannedCycles:
    """Coming cycles of an agent under a budget.

    Attributes:
        agent: its name.
        cycles: number of cycles.
        children: number of children of each cycle.
        steps: number of steps of a child.
        most_steps: number of steps of a child at most, where its validation is not flat before.
        seconds: forecast of the wall time of a cycle, at most; None where the budget counts steps.
        untrained: number of children of the first of these cycles that are a joint root as it is, and make no step.
    """

    agent: str
    cycles: int
    children: int
    steps: int
    most_steps: int
    seconds: float | None
    untrained: int = 0


@dataclass
class Session:
    """Agents that are about to run, and the way to stop them.

    Attributes:
        system: system of the agents.
        agents: agents that run, without the roots that they may lack.
        cycles: number of cycles that each is to have ended.
        budget: the budget as it was given; empty without one.
        planned: the cycles that it pays for, as far as that is known.
        stopped: whether a stop was requested.
    """

    system: System
    agents: list[AgentRow]
    cycles: int
    budget: str = ""
    planned: tuple[PlannedCycles, ...] = ()
    stopped: bool = False

    def stop(self) -> None:
        """End soon; children that are under way are done again when it goes on."""
        self.stopped = True
        self.system.stop()


@dataclass(frozen=True)
class AgentSummary:
    """The progress of an agent.

    Attributes:
        agent, task: its name, and the task that it answers.
        cycles: number of cycles that it ended.
        validation: validation accuracy of its published path, 0 to 1; None without one.
        test: test accuracy of that path; None where it was not measured.
        parameters: number of accounted parameters of the path.
    """

    agent: str
    task: str
    cycles: int
    validation: float | None
    test: float | None
    parameters: float | None


@dataclass(frozen=True)
class RunSummary:
    """The result of a run of agents.

    Attributes:
        system: name of the system.
        state: an ``interrupted`` run is resumed by the same call.
        agents: summaries of the agents that ran.
        wanted: number of cycles that each agent was to have ended; one with fewer has used up the budget.
    """

    system: str
    state: Literal["finished", "interrupted"]
    agents: tuple[AgentSummary, ...]
    wanted: int = 1


def run_system(
    system: str,
    *,
    agents: Sequence[str] = (SINGLE,),
    tasks: Sequence[str] = (),
    cycles: int | None = None,
    budget: str | None = None,
    workers: int = 1,
    schedule: Schedule = "rounds",
    test: bool = False,
    store: str | Path = "runs",
    listener: Listener | None = None,
    on_start: Callable[[Session], None] | None = None,
    cache_folder: Path | None = None,
    execution: Mapping[str, Any] | None = None,
    executor: Executor | None = None,
) -> RunSummary:
    """Run agents until each has ended so many cycles in all; the same call resumes a stopped run.

    Args:
        system: its name, id, or the beginning of one.
        agents: ``single``, ``multi`` (agents that combine paths: added where a task has none), classes, or agents.
        tasks: tasks whose agents run; all if empty.
        cycles: number of cycles that each is to have ended, those of earlier runs included; None = 1, with a budget
            one more than any of them has ended.
        budget: for all of them together, as 10m or 5000steps; None = as many children as the settings have. How much of
            a time was used depends on the clock; what each cycle was allowed is recorded before it begins.
        workers: number of children at a time. The system is the same with any number, but for ``free``.
        schedule: ``rounds``, or ``free``.
        test: whether the best path of each cycle is measured on the test split, once.
        store: folder of the store.
        listener: called with events: type and JSON-able facts.
        on_start: called with the session before it begins.
        cache_folder: folder of prepared data and representations; None is the user's, on each node of a cluster its
            own.
        execution: where children are trained, as the settings ``execution`` of a search: executor (processes, serial,
            ray, ...), its options, devices.
        executor: executor to use instead of one of these settings; the caller closes it.

    Raises:
        UsageError: no agent to run, an unknown name, a device that this machine lacks, or an executor that cannot work
            here.
        NotFoundError: no such system.
        RunOwnedError: another process runs one of the agents.
        EvaluationsFailedError: no child of an agent ever succeeded.
    """
    if (cycles is not None and cycles < 1) or workers < 1:
        raise UsageError(f"agents run 1 cycle at least, with 1 worker at least; got {cycles} and {workers}.")
    if budget is not None:
        read_budget(budget)
        if schedule == "free":
            raise UsageError("a budget is shared by rounds; leave out the budget, or the schedule 'free'.")
    begun = time.monotonic()
    with Store.open(store, create=False) as opened:
        opened_system = open_system(opened, system)
        settings = _execution(workers, opened_system.settings.packages, execution or {})
        kind = EXECUTORS.get(settings.executor) if executor is None else type(executor)
        if executor is None:
            kind.check(settings.setup(PRELOAD))  # before agents are added
        chosen = choose(opened_system, agents, tasks)
        if executor is None:
            _check_devices(chosen, settings)
        cache = str(cache_folder or default_folder()) if cache_folder or kind.is_local else None

        def report(kind: str, facts: dict[str, object]) -> None:
            if session.stopped:
                running.stop()  # a wish from before the run began counts, too
            if listener is not None:
                listener(kind, facts)

        running = System(opened, opened_system.row, listener=tidied(opened, report))
        session = Session(running, chosen, 1 if cycles is None else cycles)
        own = create_executor(settings, PRELOAD) if executor is None else None
        try:
            used = own or executor
            assert used is not None
            spending = None
            if budget is not None:
                at_a_time = min(settings.workers, len(os.sched_getaffinity(0))) if kind.is_local else settings.workers
                spending = _spending(session, budget, cycles, used, cache, at_a_time, begun)
            if on_start is not None:
                on_start(session)
            try:
                state = running.run(
                    chosen, session.cycles, used, schedule=schedule, cache=cache, spending=spending
                ).state
            except DiskFullError:
                opened.tidy()  # what nothing holds is not worth a stop
                raise
            if state == "finished" and test and not _test(session, used, cache, report):
                state = "interrupted"
        finally:
            if own is not None:
                own.close()
        opened.tidy()
        return RunSummary(opened_system.row.name, state, summaries(running, chosen), session.cycles)


def choose(system: System, names: Sequence[str], tasks: Sequence[str]) -> list[AgentRow]:
    """The agents that these words name, in agent order; those that combine paths are added where a task has none.

    Args:
        system: system of the agents.
        names: ``single``, ``multi``, classes, or agents.
        tasks: tasks that they answer; all if empty.

    Raises:
        UsageError: an unknown name, or no agent is left.
    """
    every = [agent for agent in system.agents() if not is_root(agent)]
    withdrawn = system.withdrawn()
    alive = [agent for agent in every if agent.id not in withdrawn]
    for task in tasks:
        if task not in {agent.task for agent in every}:
            raise unknown_name("task", task, {agent.task for agent in every})
    singles = [agent for agent in alive if _is_single(agent)]
    if MULTI.lower() in names:
        _add_twins(system, [agent for agent in singles if agent.task in (tasks or {agent.task})])
    chosen: dict[str, AgentRow] = {}
    for name in names:
        rows = [agent for agent in system.agents() if not is_root(agent)]
        matching = [row for row in rows if row.name == name]
        if not matching:
            kinds = {row.kind for row in rows}
            if name not in (SINGLE, MULTI.lower(), *kinds):
                raise unknown_name("agent", name, {SINGLE, MULTI.lower(), *kinds, *(row.name for row in rows)})
            matching = [
                row
                for row in rows
                if row.id not in withdrawn
                and (name == row.kind or name == (SINGLE if _is_single(row) else MULTI.lower()))
            ]
        chosen.update({agent.id: agent for agent in matching if not tasks or agent.task in tasks})
    if not chosen:
        where = f"system {system.row.name!r}"
        if not every:
            raise UsageError(f"{where} has no tasks yet. Next: evodevo extend add {system.row.name} TASK --data PATH")
        of = f" of {' or '.join(tasks)}" if tasks else ""
        raise UsageError(f"nobody in {where} is {' or '.join(names)}{of}; whoever was withdrawn does not count.")
    return [agent for agent in system.agents() if agent.id in chosen]


def summaries(system: System, agents: Sequence[AgentRow]) -> tuple[AgentSummary, ...]:
    """Summaries of agents, in their order."""
    view, accounts, before = system.view(), system.accounts(), past(system.store, system.row.id)
    offers = {agent.name: view.offers.get(agent.name) for agent in agents}
    ids = [known.id for known in offers.values() if known is not None]
    tested = {
        individual: row.scores["accuracy"].value
        for individual, rows in system.store.systems.evaluations_of(ids).items()
        for row in rows
        if row.fidelity == "test" and row.state == "done"
    }
    return tuple(
        AgentSummary(
            agent.name,
            agent.task,
            before.finished(agent),
            known.quality if (known := offers[agent.name]) is not None else None,
            tested.get(known.id) if known is not None else None,
            accounts.get(agent.name),
        )
        for agent in agents
    )


# Inside


def _spending(
    session: Session,
    given: str,
    cycles: int | None,
    executor: Executor,
    cache: str | None,
    workers: int,
    begun: float,
) -> Spending:
    """The budget of a session, which has its schedule and the number of cycles from now on.

    Raises:
        UsageError: it is too short for one child in each cycle, or for a measurement of a few steps.
    """
    system, agents, budget = session.system, session.agents, read_budget(given)
    every = system.agents()
    course = course_of(system.store, system.row.id, every, agents, given, cycles)
    found: dict[str, float] = {}
    if budget.unit == "seconds":
        roots = roots_to_train(every, agents, past(system.store, system.row.id))
        found = paces(system, [*roots, *agents], executor, cache, until=begun + budget.amount)

    def spending_of(course: BudgetCourse) -> Spending:
        return Spending(
            system.store,
            system.row.id,
            every,
            agents,
            budget,
            course,
            pace=found,
            workers=workers,
            clock=time.monotonic,
            begun=begun,
        )

    spending = spending_of(course)
    coming = spending.schedule()
    if not coming and not spending.open_cycles:
        # The run that went by this budget has used it up: given again, it is one more.
        spending = spending_of(BudgetCourse(course.number + 1, given, course.target))
        coming = spending.schedule()
    session.cycles, session.budget = course.target, given
    session.planned = tuple(
        PlannedCycles(name, count, one.children, one.steps, one.most_steps, spending.seconds(name, one), one.untrained)
        for name, count, one in coming
    )
    return spending


def _is_single(agent: AgentRow) -> bool:
    return AGENTS.get(agent.kind).stage == 0


def _add_twins(system: System, singles: Sequence[AgentRow]) -> None:
    names = {(agent.kind, agent.task) for agent in system.agents()}
    for agent in singles:
        kind = f"{MULTI}{agent.kind}"
        if kind in AGENTS and (kind, agent.task) not in names:
            settings = agent_settings(agent)
            system.add_agent(kind, agent.task, twin_settings(kind, settings, system.settings))


def _test(session: Session, executor: Executor, cache: str | None, report: Listener) -> bool:
    """Measure the best path of each cycle of the agents; False where it was stopped."""
    system = session.system
    names = {agent.id: agent.name for agent in session.agents}
    for publication in system.store.systems.publications(system.row.id):
        if publication.agent_id not in names or publication.path_id is None:
            continue
        if session.stopped:
            return False
        known = system.library.one(publication.path_id)
        accuracy = measure(system, known, executor, cache=cache)
        report(
            "tested",
            {
                "agent": names[publication.agent_id],
                "cycle": publication.cycle,
                "path": known.path.id,
                "accuracy": accuracy,
            },
        )
    return True


def _execution(workers: int, packages: tuple[str, ...], changes: Mapping[str, Any]) -> ExecutionSettings:
    """The settings of the workers.

    Raises:
        UsageError: a setting is wrong, or is no choice of a run.
    """
    if recorded := [name for name in changes if name in ExecutionSettings.model_fields and name not in CHANGEABLE]:
        raise UsageError(
            f"execution.{recorded[0]} is not chosen for a run of agents; of execution, these are: "
            f"{', '.join(CHANGEABLE)}."
        )
    default = "processes" if platform.system() == "Linux" else "serial"
    values = {"executor": default, "workers": workers, "packages": list(packages), **changes}
    enable_packages(packages)  # one of them may bring the executor
    return validate(ExecutionSettings, values, what="execution")


def _check_devices(agents: Sequence[AgentRow], execution: ExecutionSettings) -> None:
    """Refuse a device that this machine lacks once, not once per child."""
    for device, precision in {
        (str(training.get("device", "auto")), str(training.get("precision", "float32")))
        for training in (agent.settings["training"] for agent in agents)
    }:
        check_execution(execution, device, "bfloat16" if precision == "bfloat16" else "float32")

"""Seconds of a step of each agent's children on this machine: from the children that it has had, or measured.

A measurement trains a path as the root of the class would be, all of it, on the agent's own data, twice: the difference
is the time of steps, the rest that of a child's beginning and of its looks. An agent that combines paths counts as
``COMBINED`` of the class inside until it has had children.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from evodevo.errors import UsageError
from evodevo.execution.base import Executor
from evodevo.multitask.agent import AGENTS
from evodevo.multitask.budgets.budget import FEWEST
from evodevo.multitask.budgets.rehearsal import root_payload, timed
from evodevo.multitask.paths.kinds import SinglepathKind
from evodevo.multitask.recorded import CHILD
from evodevo.multitask.schedule import is_root
from evodevo.multitask.settings import AgentSettings, JointTask
from evodevo.multitask.stored import agent_settings
from evodevo.multitask.system import System
from evodevo.scratch import scratch
from evodevo.settings import validate
from evodevo.storage.base import EvaluationRow
from evodevo.storage.systems.base import AgentRow

COMBINED = 3.0
STEPS = 24
"""Steps of the longer measurement beyond those of the shorter one."""
PREFIX = "Multi"
SHAPE = ("structure", "hyperparameters", "version")
"""Options of a root that its size follows from."""


def paces(
    system: System, agents: Sequence[AgentRow], executor: Executor, cache: str | None, until: float | None = None
) -> dict[str, float]:
    """Agent's id -> seconds of a step.

    Args:
        system: system of the agents.
        agents: agents that are about to run, and roots that are to be trained.
        executor: idle executor of the children's trainings.
        cache: folder of the workers' caches.
        until: moment of ``time.monotonic`` at which the budget ends; None where it does not matter.

    Raises:
        EvaluationsFailedError: not even a few steps could be trained.
        UsageError: an agent whose paths begin with imports has had no children of ``FEWEST`` steps; or the budget was
            over after a few steps already.
    """
    return {agent.id: _recorded(system, agent) or _measured(system, agent, executor, cache, until) for agent in agents}


def _recorded(system: System, agent: AgentRow) -> float | None:
    """The pace of the last child that made as many steps as those to come."""
    individuals = [row.id for row in system.store.individuals(agent.id)]
    results = [row for rows in system.store.systems.evaluations_of(individuals).values() for row in rows]
    made = [(row.seconds, int((row.extra.get("answer") or {}).get("steps") or 0)) for row in results if _trained(row)]
    long = [seconds / steps for seconds, steps in made if seconds and steps >= FEWEST]
    return long[-1] if long else None


def _trained(row: EvaluationRow) -> bool:
    return row.fidelity == CHILD and row.state == "done"


def _measured(system: System, agent: AgentRow, executor: Executor, cache: str | None, until: float | None) -> float:
    kind = agent.kind.removeprefix(PREFIX) if agent.kind not in _with_roots(system) else agent.kind
    family: SinglepathKind | None = getattr(AGENTS.get(kind), "family", None)
    if family is None or not family.presets:
        raise UsageError(
            f"how long a step of {agent.name} takes is not known before it has had children, since its paths begin with"
            " imports; give a budget in steps, such as 5000steps."
        )
    payload = _payload(system, agent, kind, cache)
    looks = int(agent_settings(agent).training.get("validations", 4))
    with scratch() as folder:
        payload |= {"blobs": str(folder), "cache": cache}
        _timed(executor, payload, looks)  # prepares data and warms workers
        short = _timed(executor, payload, looks)
        if until is not None and time.monotonic() > until:
            raise UsageError(
                f"the budget was over before a child of {agent.name} could begin: {looks} steps with their looks at "
                f"validation take {short:.3g} s here, and a child makes {FEWEST}. Give more time, or steps."
            )
        long = _timed(executor, payload, looks * (1 + -(-STEPS // looks)))
    each = max(0.0, long - short) / (looks * -(-STEPS // looks))
    pace = (short + each * (FEWEST - looks)) / FEWEST
    return pace * (COMBINED if kind != agent.kind else 1.0)


def _with_roots(system: System) -> set[str]:
    return {agent.kind for agent in system.agents() if is_root(agent)}


def _payload(system: System, agent: AgentRow, kind: str, cache: str | None) -> dict[str, Any]:
    """The request of a worker for a path like the class's root, trained on the agent's task."""
    own = of_first_task(agent_settings(agent))
    roots = [row for row in system.agents() if is_root(row) and row.kind == kind]
    options = agent_settings(roots[0]).options if roots else {}
    structure: dict[str, Any] = {key: value for key, value in options.items() if key in SHAPE}
    settings = AgentSettings(
        classes=own.classes,
        task=own.task,
        task_key=own.task_key,
        modalities=own.modalities,
        inputs=own.inputs,
        columns=own.columns,
        training=own.training,
        options=structure,
    )
    return root_payload(kind, system.settings, settings, cache)


def of_first_task(settings: AgentSettings) -> AgentSettings:
    """Settings of a joint root with the first of its tasks, those of others as they are."""
    together = settings.options.get("together")
    if not together:
        return settings
    first = validate(JointTask, together[0], what="a task of a joint root")
    return settings.model_copy(update={"classes": first.classes, "task": first.task, "task_key": first.task_key})


def _timed(executor: Executor, payload: dict[str, Any], steps: int) -> float:
    """Seconds of a training of so many steps."""
    training = {**payload["training"], "steps": steps, "most_steps": 0}
    return timed(executor, {**payload, "training": training}, f"pace/{steps}", f"a path for {payload['task']!r}")

"""A root that tasks of a system train together, as a user asks for it. Nothing is recorded here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evodevo.errors import UsageError, quoted_list, unknown_name
from evodevo.multitask.agent import AGENTS
from evodevo.multitask.rules import OURS
from evodevo.multitask.run.checks import check_class, check_modalities, reads_samples
from evodevo.multitask.run.roots import COURSE, PlannedRoot
from evodevo.multitask.run.settings import INHERITED, of_task, table_of, with_own
from evodevo.multitask.schedule import is_joint, is_root
from evodevo.multitask.settings import JOINT, AgentSettings, JointTask
from evodevo.multitask.stored import agent_settings
from evodevo.multitask.system import System

FEWEST_TASKS = 2
STEPS, MOST_PERIODS = 500, 10
"""Steps of each task between two looks at whether validation is flat, and largest number of such periods, where nobody
says how long."""


def class_of_roots(system: System) -> str:
    """The class of agents of a system's roots.

    Raises:
        UsageError: there are several, or none.
    """
    withdrawn = system.withdrawn()
    kinds = {agent.kind: None for agent in system.agents() if is_root(agent) and agent.id not in withdrawn}
    if len(kinds) != 1:
        raise UsageError(
            f"system {system.row.name!r} has roots of {quoted_list(kinds) or 'no class'}; name one: --class CLASS."
        )
    return next(iter(kinds))


def plan_joint(system: System, root: str, kind: str, given: Mapping[str, Any]) -> PlannedRoot:
    """Check a root that tasks of a system train together.

    Args:
        system: the system, with its tasks.
        root: ``joint``, of all tasks whose samples paths of the class read, or ``joint:NAME,NAME``.
        kind: its class of agents.
        given: nested settings of the root: ``training``.

    Raises:
        UsageError: fewer than two tasks, one that is none of the system or that the class cannot read, or no root to
            begin with.
    """
    check_class(kind)
    own = dict(given)
    if unknown := sorted(set(own) - {"training"}):
        raise UsageError(
            f"a joint root begins as another root of the system; only root.training can be set, not {unknown[0]}."
        )
    withdrawn = system.withdrawn()
    alive = [agent for agent in system.agents() if agent.id not in withdrawn]
    first = next((agent for agent in alive if is_root(agent) and agent.kind == kind), None)
    if first is None:
        raise UsageError(
            f"a joint root begins with another root of class {kind}, and system {system.row.name!r} has none. Next: "
            f"evodevo extend create {system.row.name} --beside --class {kind}"
        )
    known = {agent.task: of_task(agent_settings(agent)) for agent in alive if not is_root(agent)}
    _, _, words = root.partition(":")
    named = list(dict.fromkeys(word.strip() for word in words.split(",") if word.strip()))
    if missing := [name for name in named if name not in known]:
        raise unknown_name(f"task of system {system.row.name!r}", missing[0], list(known))
    for name in named:
        check_modalities(kind, name, known[name])
    tasks = {name: known[name] for name in named or known if named or reads_samples(kind, known[name])}
    if len(tasks) < FEWEST_TASKS:
        raise UsageError(
            f"a joint root is trained by {FEWEST_TASKS} tasks at least; system {system.row.name!r} has "
            f"{quoted_list(tasks) or 'none'} for class {kind}. Next: evodevo extend add {system.row.name} TASK"
        )
    together = [
        JointTask(name=name, classes=one.classes, task=one.task, task_key=one.task_key).model_dump(mode="json")
        for name, one in tasks.items()
    ]
    same = [agent for agent in system.agents([kind]) if is_joint(agent)]
    facts = next(iter(tasks.values()))
    options = {
        **{key: value for key, value in first.settings["options"].items() if key in (*INHERITED, "structure")},
        "root": JOINT,
        "together": together,
        "begins": first.name,
    }
    agent = AgentSettings(classes=0, modalities=facts.modalities, inputs=facts.inputs, options=options)
    given_course = {*system.settings.training, *table_of("training", own.get("training", {}))} & {*COURSE}
    if options.get("version", system.settings.version) == OURS and not given_course:
        steps = STEPS * len(tasks)
        agent = agent.model_copy(update={"training": {"steps": steps, "most_steps": MOST_PERIODS * steps}})
    agent = with_own(kind, agent, system.settings, own)
    name = JOINT if not same else f"{JOINT}_{len(same) + 1}"
    return PlannedRoot(kind, JOINT, name, agent, {})


def possible_tasks(system: System, kind: str) -> list[str]:
    """Tasks that could train a root of a class together; empty where such a root is there or none can be."""
    if any(is_joint(agent) for agent in system.agents([kind])):
        return []
    try:
        settings = plan_joint(system, JOINT, kind, {}).settings
        AGENTS.get(kind).check(settings.model_copy(update={"root": True}))
    except UsageError:
        return []
    return [str(task["name"]) for task in settings.options["together"]]

"""Checks of names, classes and modalities before anything is read or recorded for a system."""

from __future__ import annotations

from collections.abc import Sequence

from evodevo.errors import UsageError, quoted_list, unknown_name
from evodevo.multitask.agent import AGENTS, IMPORT
from evodevo.multitask.paths.kinds import SinglepathKind
from evodevo.multitask.schedule import is_root
from evodevo.multitask.settings import AgentSettings
from evodevo.multitask.system import ROOT_TASK, System, checked_name


def check_name(name: str) -> None:
    """Refuse the name of a recipe for a system: ``evodevo extend run`` takes both."""
    from evodevo.runs.recipe import RECIPES

    if name in RECIPES:
        raise UsageError(f"{name!r} is a recipe, which makes its own systems; give this one another name.")


def check_class(kind: str) -> None:
    """Refuse a class that is none."""
    if kind not in AGENTS:
        raise unknown_name("class of agents", kind, AGENTS)


def check_new(system: System, kinds: Sequence[str], task: str) -> None:
    """Refuse a name that no task may have, and one that is taken, before any data are read."""
    for kind in kinds:
        if task.split("/")[0] == ROOT_TASK:
            raise UsageError(f"names that begin with {ROOT_TASK} are those of roots; choose another one than {task!r}.")
        name = checked_name(kind, task)
        if system.agents([IMPORT], [task]):
            raise UsageError(f"{task!r} is the name of an import; choose another one for the task.")
        same = [agent for agent in system.agents() if agent.name == name]
        if same and system.is_withdrawn(same[0]):
            raise UsageError(f"{name} was withdrawn; add the task under another name to begin anew.")
        if same:
            raise UsageError(
                f"system {system.row.name!r} has an agent {name} already; a task is added once to each class. Next:"
                f" evodevo extend run {system.row.name} --tasks {task}"
            )


def check_root(system: System, kind: str) -> None:
    """Refuse a class whose agents would find nothing to build on: they would keep all others from running."""
    withdrawn = system.withdrawn()
    alive = [agent for agent in system.agents() if agent.id not in withdrawn]
    if not any(AGENTS.get(kind).reads(agent) for agent in alive):
        kinds = quoted_list(dict.fromkeys(agent.kind for agent in alive if is_root(agent))) or "no class at all"
        raise UsageError(
            f"agents of class {kind} find nothing to build on in system {system.row.name!r}; its roots are of {kinds}."
        )


def check_modalities(kind: str, task: str, agent: AgentSettings) -> None:
    """Refuse samples that no path of a class can read, as far as the class defines the family of its paths."""
    family: SinglepathKind | None = getattr(AGENTS.get(kind), "family", None)
    if family is None or not family.presets:  # where all paths begin with imports there are no presets
        return
    if not any(family.begins(value, agent.modalities) for value in family.presets.values()):
        able = [name for name in AGENTS if reads_samples(name, agent)]
        remedy = f"of {quoted_list(able)} can: --class {able[0]}, after a root of it" if able else "no class can"
        raise UsageError(
            f"paths of class {kind} cannot read the samples of task {task!r}, which hold"
            f" {quoted_list(agent.modalities)}; those {remedy}"
            f"{f' (evodevo extend create SYSTEM --beside --class {able[0]})' if able else ''}."
        )


def reads_samples(name: str, agent: AgentSettings) -> bool:
    """Whether paths of a class of one path can read the samples of an agent's task."""
    kind = AGENTS.get(name)
    family: SinglepathKind | None = getattr(kind, "family", None)
    if kind.stage or family is None:
        return False
    return any(family.begins(value, agent.modalities) for value in family.presets.values())

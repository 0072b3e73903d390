"""Systems from a user's words: a root, tasks out of files, and tasks that are withdrawn.

Source: docs/spec/munet.md#agents. Whatever cannot be used is refused before anything is recorded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evodevo.errors import NotFoundError, UsageError, quoted_list
from evodevo.multitask.agent import AGENTS, IMPORT
from evodevo.multitask.rules import check_takes_effect
from evodevo.multitask.run.checks import (
    check_class,
    check_modalities,
    check_name,
    check_new,
    check_root,
    reads_samples,
)
from evodevo.multitask.run.few_labels import SINGLE, TWIN
from evodevo.multitask.run.image_size import notes_on_size
from evodevo.multitask.run.joint_root import class_of_roots, plan_joint, possible_tasks
from evodevo.multitask.run.movement import moved_by_size
from evodevo.multitask.run.roots import RANDOM, USUAL, PlannedRoot, default_root, plan_root
from evodevo.multitask.run.settings import (
    MULTI,
    check_training,
    options_of_root,
    prepare_task,
    recorded_task,
    table_of,
    twin_settings,
    with_own,
)
from evodevo.multitask.schedule import is_root
from evodevo.multitask.settings import JOINT, AgentSettings, SystemSettings
from evodevo.multitask.system import System
from evodevo.registry import enable_packages
from evodevo.settings import merge, validate
from evodevo.storage import Store
from evodevo.storage.systems.base import AgentRow

DEFAULT_CLASS = "ConvSmall"


@dataclass(frozen=True)
class CreatedAgent:
    """An agent that was recorded.

    Attributes:
        system: name of the system.
        agent: its row.
        samples: number of the task's samples by split; empty for an agent without a task.
        root: the root that was added for it, since no other could read the samples; None for none.
        left_out: column of its table that is not read -> the reason.
        notes: sentences about what was done to the task's samples, and what of them is read.
        together: tasks of the system that could train a root together; empty where they have one.
    """

    system: str
    agent: AgentRow
    samples: Mapping[str, int]
    root: AgentRow | None = None
    left_out: Mapping[str, str] = field(default_factory=dict)
    notes: Sequence[str] = ()
    together: Sequence[str] = ()


def create_system(
    name: str,
    *,
    root: str | None = None,
    data: str | Path | None = None,
    kind: str = DEFAULT_CLASS,
    seed: int = 0,
    overrides: Mapping[str, Any] | None = None,
    store: str | Path = "runs",
    cache_folder: Path | None = None,
) -> CreatedAgent:
    """A new system with one root; the root is made when agents run for the first time.

    Args:
        name: unique in the store.
        root: ``random_init``, ``builtin:NAME`` (of the package), ``pretrain:NAME`` (trained on that task) or
            ``checkpoint:FOLDER`` (a Hugging Face ViT) or ``checkpoint:FILE.safetensors`` (a root that
            ``multitask.roots.training`` wrote); None is the package's for classes that have one, else at random.
        data: data of the task NAME; without it NAME begins with ``digits``.
        kind: class of agents that the root is for; see ``AGENTS``.
        seed: seed of all draws in the system.
        overrides: nested settings: those of ``SystemSettings``, and under ``root`` those of the root: ``training``,
            ``task``, and options of its class (``structure``, ``hyperparameters``).
        store: folder of the store.
        cache_folder: folder of prepared data.

    Returns:
        The root.

    Raises:
        UsageError, DataError: something cannot be used; no system was recorded then.
    """
    values = dict(overrides or {})
    own = table_of("root", values.pop("root", {}))
    settings = validate(SystemSettings, values, what="settings of the system")
    check_training(settings.training)
    enable_packages(settings.packages)
    check_name(name)
    check_takes_effect(AGENTS.get(kind), settings, table_of("cycle", values.get("cycle", {})))
    planned = plan_root(root or default_root(kind, own), kind, data, own, settings, cache_folder)

    def make(opened: Store) -> AgentRow:
        return planned.add_to(_system(opened, name, seed, settings))

    with Store.memory() as rehearsal:
        make(rehearsal)
    with Store.open(store) as opened:
        return CreatedAgent(name, make(opened), planned.samples)


def add_root(
    system: str,
    *,
    root: str | None = None,
    data: str | Path | None = None,
    kind: str | None = None,
    overrides: Mapping[str, Any] | None = None,
    store: str | Path = "runs",
    cache_folder: Path | None = None,
) -> CreatedAgent:
    """One more root in a system that exists: of another class, or trained on another task, or on several.

    Args:
        system: its name, id, or the beginning of one.
        root: as for ``create_system``; ``joint``, or ``joint:NAME,NAME``, is trained by tasks of the system together.
        data, store, cache_folder: as for ``create_system``.
        kind: class of agents that the root is for; None = as there, and of a joint root the only one of the system's
            roots.
        overrides: nested settings of the root, as those under ``root`` there.

    Raises:
        UsageError, DataError: something cannot be used; nothing was recorded then.
        NotFoundError: no such system.
    """
    with Store.open(store, create=False) as opened:
        opened_system = open_system(opened, system)
        own = dict(overrides or {})
        if root is not None and root.partition(":")[0] == JOINT:
            if data is not None:
                raise UsageError("a joint root learns tasks of the system, which have their data; leave --data out.")
            joint = plan_joint(opened_system, root, kind or class_of_roots(opened_system), own)
            return CreatedAgent(opened_system.row.name, joint.add_to(opened_system), joint.samples)
        kind = kind or DEFAULT_CLASS
        planned = plan_root(root or default_root(kind, own), kind, data, own, opened_system.settings, cache_folder)
        with Store.memory() as rehearsal:
            planned.add_to(
                System.create(
                    rehearsal, opened_system.row.name, seed=opened_system.row.seed, settings=opened_system.settings
                )
            )
        return CreatedAgent(opened_system.row.name, planned.add_to(opened_system), planned.samples)


def add_task(
    system: str,
    task: str,
    *,
    data: str | Path | None = None,
    source: str | None = None,
    label: str | None = None,
    kind: str | None = None,
    question: str | None = None,
    rotate: int | None = None,
    only: Sequence[str] = (),
    multi: bool = False,
    few_labels: bool = False,
    overrides: Mapping[str, Any] | None = None,
    store: str | Path = "runs",
    cache_folder: Path | None = None,
) -> list[CreatedAgent]:
    """An agent for a task; its data are read, checked and divided now.

    Args:
        system: its name, id, or the beginning of one.
        task: a name of the user's choice, letters, digits, ``_``, ``-`` and ``.``. A task that another
            class of agents has already needs no data.
        data: its files; without them the name begins with ``digits``, or another source generates samples.
        source: a task of the table that hands out samples; if left out, what fits the data (see ``source_of``).
        label: column of the class, where a sample is a row of a table.
        kind: class of agents; if left out, that of the root, of several the only one that can read the samples. Texts
            and rows of a table that none can read get a root of their own (``roots.USUAL``).
        question, rotate, only: see ``MultitaskSettings``.
        multi: whether the class that combines paths works on it, too.
        few_labels: whether agents get the settings for few labelled samples (``few_labels``), under ``overrides``.
        overrides: nested settings: ``cycle``, ``training``, ``task``, options of the class, and all of these under
            ``multi`` for the class that combines paths.
        store: folder of the store.
        cache_folder: folder of prepared data.

    Raises:
        UsageError, DataError: something cannot be used; nothing was recorded then.
        NotFoundError: no such system.
    """
    own = dict(overrides or {})
    of_twin = table_of(MULTI.lower(), own.pop(MULTI.lower(), {}))
    if few_labels:
        own, of_twin = merge(SINGLE, own), merge(TWIN, of_twin)
    given = merge(
        {
            **({} if source is None else {"source": source}),
            **({} if question is None else {"question": question}),
            **({} if rotate is None else {"rotate": rotate}),
            **({"only": list(only)} if only else {}),
            **({} if label is None else {"options": {"label": label}}),
        },
        table_of("task", own.pop("task", {})),
    )
    with Store.open(store, create=False) as opened:
        opened_system = open_system(opened, system)
        possible = classes_of_roots(opened_system) if kind is None else (kind,)
        if len(possible) == 1:  # before any data are read
            _check_agents(opened_system, possible[0], task, multi)
        agent = recorded_task(opened_system, task)
        samples: Mapping[str, int] = {}
        left_out: Mapping[str, str] = {}
        notes: Sequence[str] = ()
        if agent is None:
            agent, samples, left_out, notes = prepare_task(task, data, given, cache_folder)
        elif data is not None or given:
            raise UsageError(
                f"task {task!r} is in system {opened_system.row.name!r} already, with its data; leave the data out to"
                f" let another class of agents work on it, or choose another name."
            )
        begun: PlannedRoot | None = None
        usual = USUAL.get(str(agent.task.get("source")))
        if kind is None and usual is not None and not any(reads_samples(one, agent) for one in possible):
            begun = plan_root(RANDOM, usual, None, {}, opened_system.settings, cache_folder)
            possible = (usual,)
            check_new(opened_system, [usual, *([_twin_of(usual)] if multi else [])], task)
        if len(possible) > 1:
            possible = (_only_reader(opened_system, possible, task, agent),)
            _check_agents(opened_system, possible[0], task, multi)
        kind = possible[0]
        if samples:
            check_modalities(kind, task, agent)
        usual_options = moved_by_size(options_of_root(opened_system, kind), samples.get("train"))
        new = [(kind, with_own(kind, agent, opened_system.settings, merge(usual_options, own)))]
        notes = [*notes, *notes_on_size(*new[0])]
        if multi:
            twin = _twin_of(kind)
            new.append((twin, twin_settings(twin, new[0][1], opened_system.settings, of_twin)))
        with Store.memory() as rehearsal:
            copy = System.create(
                rehearsal, opened_system.row.name, seed=opened_system.row.seed, settings=opened_system.settings
            )
            if begun is not None:
                begun.add_to(copy)
            for kind_of, settings in new:
                copy.add_agent(kind_of, task, settings)
        root = None if begun is None else begun.add_to(opened_system)
        agents = [opened_system.add_agent(kind_of, task, settings) for kind_of, settings in new]
        together = possible_tasks(opened_system, kind)
        return [
            CreatedAgent(opened_system.row.name, agent, samples, root, left_out, notes, together) for agent in agents
        ]


def withdraw(system: str, name: str, *, store: str | Path = "runs") -> list[str]:
    """Withdraw a task of a system, or one agent's path for it; components that others use stay (``remains_of``).

    Args:
        system: its name, id, or the beginning of one.
        name: name of a task, or of an agent.
        store: folder of the store.

    Returns:
        The agents that were withdrawn.

    Raises:
        NotFoundError: no such system, task or agent.
        RunOwnedError: another process holds an agent of it; nothing was withdrawn.
        UsageError: it was withdrawn already.
    """
    with Store.open(store, create=False) as opened:
        opened_system = open_system(opened, system)
        chosen = withdrawable(opened_system, name)
        leases = []
        try:  # whoever works on one of them keeps all
            for agent in chosen:
                leases.append(opened.acquire(agent.id))
        finally:
            for lease in leases:
                opened.release(lease)
        for agent in chosen:
            opened_system.withdraw(agent.name)
        return [agent.name for agent in chosen]


def withdrawable(system: System, name: str) -> list[AgentRow]:
    """The agents of a task, or the one of this name, that were not withdrawn yet; see ``withdraw``."""
    named = [agent for agent in system.agents() if name in (agent.name, agent.task)]
    if not named:
        known = dict.fromkeys(agent.task for agent in system.agents())
        raise NotFoundError(
            f"system {system.row.name!r} has no task and no agent {name!r}; its tasks are {quoted_list(known)}."
        )
    withdrawn = system.withdrawn()
    chosen = [agent for agent in named if agent.id not in withdrawn]
    if not chosen:
        raise UsageError(f"{name} was withdrawn already.")
    return chosen


# Also for callers that run agents


def open_system(store: Store, name: str) -> System:
    """A system by its name, with the packages that it names.

    Raises:
        NotFoundError: none is called so.
    """
    system = System.open(store, name)
    enable_packages(system.settings.packages)
    return system


def classes_of_roots(system: System) -> tuple[str, ...]:
    """The classes of a system's roots, in order; imports count where there is nothing else.

    Raises:
        UsageError: it has none.
    """
    withdrawn = system.withdrawn()
    roots = [agent.kind for agent in system.agents() if is_root(agent) and agent.id not in withdrawn]
    kinds = dict.fromkeys(root_kind for root_kind in roots if root_kind != IMPORT) or dict.fromkeys(
        ["Net"] if roots else []
    )
    if not kinds:
        raise UsageError(f"system {system.row.name!r} has no root, from which agents could begin.")
    return tuple(kinds)


# Inside


def _only_reader(system: System, kinds: Sequence[str], task: str, agent: AgentSettings) -> str:
    """The one of several classes whose paths can read the samples of a task.

    Raises:
        UsageError: none can, or several can.
    """
    able = [kind for kind in kinds if reads_samples(kind, agent)]
    if not able:
        check_modalities(kinds[0], task, agent)
    if len(able) != 1:
        raise UsageError(
            f"system {system.row.name!r} has roots of classes {quoted_list(able or kinds)}, which can read the samples"
            f" of task {task!r}; choose one: --class."
        )
    return able[0]


def _check_agents(system: System, kind: str, task: str, multi: bool) -> None:
    """Refuse agents of a class for a task, as far as no data are needed for it."""
    check_class(kind)
    check_new(system, [kind, *([_twin_of(kind)] if multi else [])], task)
    check_root(system, kind)


def _twin_of(kind: str) -> str:
    """The class that combines the paths of a class.

    Raises:
        UsageError: there is none.
    """
    name = f"{MULTI}{kind}"
    if name not in AGENTS:
        raise UsageError(f"no class of agents combines paths of class {kind}; {name} is not known.")
    return name


def _system(store: Store, name: str, seed: int, settings: SystemSettings) -> System:
    """A new system; one that was killed before its root was recorded is gone on with."""
    for row in store.systems.systems():
        if row.name == name and not store.systems.agents(row.id):
            opened_system = System(store, row)
            if (opened_system.row.seed, opened_system.settings) == (seed, settings):
                return opened_system
    return System.create(store, name, seed=seed, settings=settings)

"""The settings that an agent records of its task and from a user, so that it can run wherever the store is.

Source: docs/spec/munet.md#tasks. Nothing is recorded here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from evodevo.errors import UsageError, quoted_list
from evodevo.multitask.agent import AGENTS
from evodevo.multitask.rules import whole_settings
from evodevo.multitask.schedule import is_root
from evodevo.multitask.settings import AgentSettings, CycleSettings, SystemSettings
from evodevo.multitask.stored import agent_settings
from evodevo.multitask.system import System
from evodevo.multitask.training.values import PathTrainingSettings
from evodevo.settings import merge, validate

MULTI = "Multi"
"""Before the name of a class: the class that combines its paths."""
DIGITS = "digits"
"""Beginning of the names of tasks that are made of scikit-learn's digits: the only images that need no file."""
INHERITED = ("version", "hyperparameters")
"""Options that agents take over from their root, where they leave them open."""
OF_TASK = ("classes", "task", "task_key", "class_names", "modalities", "inputs", "columns")
"""Settings of an agent that all agents of its task share."""


class PreparedTask(NamedTuple):
    """A task whose data were read.

    Args:
        agent: settings that its agents record.
        samples: number of its samples by split.
        left_out: column of a table that is not read -> the reason.
        notes: sentences about what was done to its samples.
    """

    agent: AgentSettings
    samples: Mapping[str, int]
    left_out: Mapping[str, str] = MappingProxyType({})
    notes: Sequence[str] = ()


def prepare_task(
    name: str, data: str | Path | None, given: Mapping[str, Any], cache_folder: Path | None
) -> PreparedTask:
    """Read, check and divide the data of a task; the cache has them from then on.

    Args:
        name: name of the task, for messages; without data it begins with ``digits``.
        data: its files.
        given: other settings of ``MultitaskSettings``.
        cache_folder: folder of prepared data.

    Raises:
        UsageError, DataError: settings or data that cannot be used.
    """
    # Readers of data load numpy, which a new system without a task does not need.
    from evodevo.multitask.run.data_kind import source_of
    from evodevo.tasks.modalities import modalities_of, with_bytes
    from evodevo.tasks.multitask.task import MultitaskSettings, MultitaskTask

    values = dict(given)
    if "data" in values:
        raise UsageError("the data of a task are named by --data, not as a setting.")
    if data is not None:
        path = Path(data).expanduser().resolve()
        values["data"] = str(path)
        if "source" not in values:
            values["source"] = source_of(path, table_of("options", values.get("options", {})))
    elif values.get("source", "images") == "images" and not name.startswith(DIGITS):
        raise UsageError(
            f"task {name!r} has no data. Name them with --data PATH; only tasks made of scikit-learn's digits need"
            f" none, and their names begin with {DIGITS!r}."
        )
    settings = validate(MultitaskSettings, values, what=f"settings of task {name!r}")
    settings = settings.model_copy(update={"options": with_bytes(settings.source, settings.options)})
    opened = MultitaskTask.open(settings, cache_folder)
    about = opened.describe()
    samples: Mapping[str, int] = about["samples"]
    left_out = about["source"].get("left_out", {}) if opened.row_columns else {}
    facts = AgentSettings(
        classes=opened.classes,
        task=settings.model_dump(mode="json"),
        task_key=opened.key,
        class_names=opened.outputs[0].names,
        modalities=modalities_of(opened),
        inputs=tuple(asdict(spec) for spec in opened.inputs),
        columns=opened.row_columns,
    )
    return PreparedTask(facts, samples, left_out, _notes(about["source"]))


def _notes(source: Mapping[str, Any]) -> list[str]:
    """What became of images of several sizes and of unreadable ones, from the description of their task."""
    notes = []
    if source.get("uneven"):
        height, width = source["shape"][:2]
        notes.append(
            f"Its images have several sizes; all are resized to {height} x {width}. Another size, HEIGHT and WIDTH in"
            " pixels: --set task.options.size='[HEIGHT, WIDTH]'"
        )
    if count := source.get("skipped", 0):
        notes.append(f"{count:,} files cannot be read and are left out ({quoted_list(source['skipped_names'])}).")
    return notes


def recorded_task(system: System, task: str) -> AgentSettings | None:
    """Settings that the agents of a task recorded of it; None for a task without agents."""
    for agent in system.agents(tasks=[task]):
        if not is_root(agent) and not system.is_withdrawn(agent):
            return of_task(agent_settings(agent))
    return None


def of_task(agent: AgentSettings) -> AgentSettings:
    """Settings that all agents of its task share."""
    return AgentSettings(**{key: getattr(agent, key) for key in OF_TASK})


def with_own(
    kind: str, agent: AgentSettings, system: SystemSettings, own: Mapping[str, Any], *, root: bool = False
) -> AgentSettings:
    """An agent's settings with a user's changes, and below these the usual options of its class.

    Args:
        kind: its class.
        agent: settings without the changes.
        system: settings of the system.
        own: nested changes: ``cycle``, ``training``, ``builds_on``; others are options of its class.
        root: whether it is a root whose weights are not read from a checkpoint of others.

    Raises:
        UsageError: an invalid value or key.
    """
    values = dict(own)
    cycle, training = table_of("cycle", values.pop("cycle", {})), table_of("training", values.pop("training", {}))
    training = merge(agent.training, training)
    check_training(merge(system.training, training))
    built: dict[str, Any] = {"builds_on": values.pop("builds_on")} if "builds_on" in values else {}
    options = merge(agent.options, values)
    usual = AGENTS.get(kind).usual_options(options.get("version", system.version), root=root)
    options = merge(dict(usual), options)
    plain = {**agent.model_dump(mode="json"), **built, "training": training, "options": options}
    changed = validate(AgentSettings, plain, what="settings of the agent")
    if cycle:
        below = whole_settings(AGENTS.get(kind), system, changed).cycle or CycleSettings()
        whole = merge(below.model_dump(mode="json"), cycle)
        changed = changed.model_copy(update={"cycle": validate(CycleSettings, whole, what="settings of cycles")})
    return changed


def twin_settings(
    kind: str, single: AgentSettings, system: SystemSettings, own: Mapping[str, Any] | None = None
) -> AgentSettings:
    """Settings of an agent that combines paths for the task of another one.

    Args:
        kind: its class.
        single: settings of the other agent; the task and the published rules that it follows are taken over.
        system: settings of the system.
        own: see ``with_own``.
    """
    version = {key: value for key, value in single.options.items() if key == "version"}
    return with_own(kind, of_task(single).model_copy(update={"options": version}), system, own or {})


def options_of_root(system: System, kind: str) -> dict[str, Any]:
    """Options that agents of a class take over from their root."""
    for agent in system.agents([kind]):
        if is_root(agent):
            return {key: value for key, value in agent.settings["options"].items() if key in INHERITED}
    return {}


def check_training(training: Mapping[str, Any]) -> None:
    """Refuse settings of training that no child could use.

    Raises:
        UsageError: with the wrong setting.
    """
    validate(PathTrainingSettings, dict(training), what="settings of training")


def table_of(name: str, value: Any) -> dict[str, Any]:
    """A table of nested settings.

    Raises:
        UsageError: it is a value.
    """
    if not isinstance(value, Mapping):
        raise UsageError(f"{name} is a table of settings, for example {name}.KEY=VALUE; got {str(value)[:80]!r}.")
    return dict(value)

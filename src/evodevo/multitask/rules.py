"""The rules of an agent: those of its version, with its system's changes and its own.

Source: docs/spec/munet.md#differences-between-versions. All is recorded with the agent when it is added, so that
another version of this library changes nothing about it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import reduce
from typing import Any, get_args

from evodevo.errors import UsageError
from evodevo.multitask.agent import AgentClass
from evodevo.multitask.hyperparameters import Version
from evodevo.multitask.search.versions import Rules
from evodevo.multitask.settings import AgentSettings, CycleSettings, SystemSettings
from evodevo.settings import merge, validate

OURS: Version = "paper"


def whole_settings(kind: AgentClass, system: SystemSettings, agent: AgentSettings) -> AgentSettings:
    """An agent's whole settings: open fields are filled in.

    Args:
        kind: its class.
        system: settings of its system; where they differ from our defaults they override the rules of a version.
        agent: its own settings, which override both; its option ``version`` may differ from the system's.
    """
    version = agent.options.get("version", system.version)
    rules = kind.published(version) if version in get_args(Version) else None  # a strange one is refused by the class
    known = rules or Rules()
    options = merge(dict(known.options), agent.options)
    if rules is not None and version != OURS:
        options["version"] = version
    cycle = agent.cycle
    if not cycle:
        cycle = cycle_of(known, system)
        if agent.root:
            cycle = CycleSettings(samples=1, generation_size=1, score=cycle.score)
    return agent.model_copy(
        update={
            "cycle": cycle,
            "training": merge(merge(dict(known.training), system.training), agent.training),
            "options": options,
        }
    )


def cycle_of(rules: Rules, system: SystemSettings) -> CycleSettings:
    """The cycles of a version, with what a system changes from our defaults."""
    changed = _difference(CycleSettings().model_dump(mode="json"), system.cycle.model_dump(mode="json"))
    return validate(CycleSettings, merge(rules.cycle.model_dump(mode="json"), changed), what="settings of cycles")


def check_takes_effect(kind: AgentClass, system: SystemSettings, given: Mapping[str, Any]) -> None:
    """Refuse changes of cycles that a system cannot pass on to agents of a class.

    Args:
        kind: class of agents.
        system: settings of the system, with the changes.
        given: the changes of ``cycle``, nested, as a user has given them.

    Raises:
        UsageError: one is our default, which overrides nothing, where the class has another value.
    """
    rules = kind.published(system.version)
    if rules is None:
        return
    for keys in _leaves(given):
        own, default, usual = (reduce(getattr, keys, one) for one in (system.cycle, CycleSettings(), rules.cycle))
        if own == default != usual:
            key = ".".join(("cycle", *keys))
            raise UsageError(
                f"{key} = {own} is the default of a system, which leaves agents of class {kind.name} their own {usual};"
                f" give it with each task: evodevo extend add SYSTEM TASK --set {key}={own}"
            )


def _leaves(given: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    for key, value in given.items():
        if isinstance(value, Mapping):
            yield from ((key, *below) for below in _leaves(value))
        else:
            yield (key,)


def _difference(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    """Changes that turn ``below`` into ``above`` by ``merge``; a key that is in one alone has its default there."""
    changes: dict[str, Any] = {}
    for key, value in above.items():
        if key in below and value == below[key]:
            continue
        both = isinstance(value, dict) and isinstance(below.get(key), dict)
        changes[key] = _difference(below[key], value) if both else value
    return changes

"""Recorded settings of systems and agents, read by this version of the library.

The rules of the agents before µ4Net's published code (versions "v1" to "v4") are gone, and with them the settings that
existed for them alone. ``upgraded`` leaves such a setting out where it has the value that is now the only one, and
refuses every other value: children of other rules would be recorded under the old name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, get_args

from evodevo.errors import UsageError
from evodevo.multitask.hyperparameters import Version
from evodevo.multitask.settings import AgentSettings, SystemSettings
from evodevo.settings import validate
from evodevo.storage.systems.base import AgentRow, SystemRow

Plain = dict[str, Any]
EARLIER = ("v1", "v2", "v3", "v4")
"""Versions whose rules are gone: µNet, µ2Net, µ3Net and the first code of µ4Net."""


@dataclass(frozen=True)
class Gone:
    """A setting that existed for earlier versions.

    Attributes:
        names: keys from its table, outermost first.
        value: the value that agents of "paper" and "v4b" have.
    """

    names: tuple[str, ...]
    value: str


OF_MUTATION = (Gone(("mutation", "store"), "moved"), Gone(("mutation", "table"), "per_action"))
OF_CYCLE = (
    Gone(("population", "ties"), "oldest"),
    Gone(("parents", "counted"), "accepted"),
    *(Gone(("child", *setting.names), setting.value) for setting in OF_MUTATION),
)
OF_TRAINING = (Gone(("keep",), "above"),)
REFUSED = {("parents", "fallback"): ("untried", "rotating"), ("child", "components", "blocks"): ("ancestor",)}
"""Settings of a cycle that are still there -> values that are not."""


def system_settings(row: SystemRow) -> SystemSettings:
    """The recorded settings of a system.

    Raises:
        UsageError: they name rules that are gone, or make no sense.
    """
    whose = f"settings of system {row.name!r}"
    return validate(SystemSettings, upgraded(row.settings, f"system {row.name!r}"), what=whose)


def agent_settings(row: AgentRow) -> AgentSettings:
    """The recorded settings of an agent.

    Raises:
        UsageError: they name rules that are gone, or make no sense.
    """
    return validate(AgentSettings, upgraded(row.settings, f"agent {row.name!r}"), what=f"settings of {row.name}")


def upgraded(recorded: Mapping[str, Any], whose: str) -> Plain:
    """Recorded settings of a system or an agent, without what existed for earlier versions alone.

    Args:
        recorded: plain data; it is left as it is.
        whose: "system 'zoo'", for the message.

    Raises:
        UsageError: they name rules that are gone.
    """
    plain: Plain = _copy(recorded)
    options = plain.get("options") or {}
    for version in (plain.get("version"), options.get("version")):
        if version in EARLIER:
            raise _refusal(whose, f"the rules {version!r}")
    cycle = plain.get("cycle") or {}
    for names, values in REFUSED.items():
        value = _at(cycle, names)
        if value in values:
            raise _refusal(whose, f"cycle.{'.'.join(names)} = {value!r}")
    tables = (
        ("cycle", cycle, OF_CYCLE),
        ("training", plain.get("training") or {}, OF_TRAINING),
        ("options.child", options.get("child") or {}, OF_MUTATION),
    )
    for place, table, gone in tables:
        for setting, inside in _present(table, gone):
            value = inside.pop(setting.names[-1])
            if value != setting.value:
                raise _refusal(whose, f"{place}.{'.'.join(setting.names)} = {value!r}")
    return plain


def as_recorded_before(table: Mapping[str, Any], gone: tuple[Gone, ...]) -> Plain:
    """Settings with what is gone in its place: names that follow from a digest of all settings stay the same."""
    plain: Plain = _copy(table)
    for setting in gone:
        inside = plain
        for name in setting.names[:-1]:
            inside = inside[name]
        inside[setting.names[-1]] = setting.value
    return plain


def _refusal(whose: str, given: str) -> UsageError:
    allowed = " and ".join(map(repr, get_args(Version)))
    return UsageError(
        f"{whose} was recorded with {given}, which this evodevo does not have any more; it has the versions {allowed}."
        " Make a new system with one of them (evodevo extend create SYSTEM --set version=v4b), or read this one with"
        " the evodevo that made it."
    )


def _present(table: Plain, gone: tuple[Gone, ...]) -> Iterator[tuple[Gone, Plain]]:
    for setting in gone:
        inside = _at(table, setting.names[:-1])
        if isinstance(inside, dict) and setting.names[-1] in inside:
            yield setting, inside


def _at(table: Any, names: tuple[str, ...]) -> Any:
    for name in names:
        table = table.get(name) if isinstance(table, dict) else None
    return table


def _copy(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _copy(item) for key, item in value.items()}
    return [_copy(item) for item in value] if isinstance(value, list | tuple) else value

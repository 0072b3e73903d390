"""The words of multitask systems: what is written, what is read back, and how ids come about.

Component ids here are those of the paper's system, ``"<agent's name>:<number>"``; they are unique in a system.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from evodevo import canonical
from evodevo.errors import UsageError
from evodevo.storage.base import NewIndividual, individual_id

CycleState = Literal["open", "closed"]


def path_id(agent_id: str, number: int) -> str:
    """The individual that is path ``number`` of an agent's run; its birth key is the number."""
    return individual_id(agent_id, str(number))


def component_key(agent_id: str, number: int) -> str:
    """Sixteen hexadecimal digits that follow from the agent's run and the component's number."""
    return canonical.digest([agent_id, "component", number])[:16]


def split_component(full_id: str) -> tuple[str, int]:
    """Agent's name and number.

    Raises:
        UsageError: the text is no id of a component.
    """
    name, _, number = full_id.rpartition(":")
    if not (name and number.isascii() and number.isdigit() and len(number) <= 12):
        raise UsageError(f"a component is named agent:number; got {full_id[:120]!r}.")
    return name, int(number)


@dataclass(frozen=True)
class NewPath:
    """A path to be asked for.

    Args:
        individual: with birth ``str(number)``; details hold the bar, the draws, the offspring count.
        number: counted by the agent; never used before.
        first_component: the first of the component numbers that are set aside for it.
        new_components: how many are; the numbers are never given again, whether they come to be used or not.
        subpaths: individuals inside a multipath one, the main path first.
    """

    individual: NewIndividual
    number: int
    first_component: int
    new_components: int = 0
    subpaths: tuple[str, ...] = ()


@dataclass(frozen=True)
class NewComponent:
    """A component that training made.

    Args:
        id: ``agent:number``, among those set aside when its path was asked for.
        role: its place in the architecture.
        parameters: how many numbers it has.
        digest: of its blob, which is in the pool already.
    """

    id: str
    role: str
    parameters: int
    digest: str


@dataclass(frozen=True)
class Use:
    """A component where a path needs it; ``id`` is ``agent:number``."""

    role: str
    id: str


@dataclass(frozen=True)
class SystemRow:
    """A system: the run that stands for it, and its name, unique in the store."""

    id: str
    name: str
    seed: int
    settings: dict[str, Any]
    created_at: str


@dataclass(frozen=True)
class AgentRow:
    """One class on one task. ``id`` is its run: what is leased, and whose individuals are its paths."""

    id: str
    system_id: str
    name: str
    kind: str
    task: str
    seed: int
    settings: dict[str, Any]


@dataclass(frozen=True)
class CycleRow:
    """A cycle of an agent; ``round`` is None where the schedule has none. ``retained``: individuals that the agent
    keeps for its next cycle beside the published one."""

    agent_id: str
    number: int
    round: int | None
    view: int
    state: CycleState
    retained: tuple[str, ...]


@dataclass(frozen=True)
class PathRow:
    """Where an individual stands among its agent's paths."""

    id: str
    agent_id: str
    number: int
    cycle: int
    first_component: int
    end_component: int


@dataclass(frozen=True)
class ComponentRow:
    """A component; ``path_id`` is the individual for which it was made. ``held``: its weights are still there."""

    id: str
    agent_id: str
    number: int
    role: str
    parameters: int
    digest: str
    path_id: str
    held: bool


@dataclass(frozen=True)
class Publication:
    """What an agent offers from ``seq`` on; ``path_id`` None withdraws what it offered before."""

    seq: int
    agent_id: str
    agent: str
    cycle: int | None
    path_id: str | None


@dataclass(frozen=True)
class Counters:
    """The first numbers that an agent never gave out."""

    path: int
    component: int

"""The records of multitask systems in the store, and the derivation of their ids.

Component ids have the paper's form, ``"<agent's name>:<number>"``; they are unique in a system.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from evodevo import canonical
from evodevo.errors import UsageError
from evodevo.storage.base import NewIndividual, individual_id

CycleState = Literal["open", "closed"]


def path_id(agent_id: str, number: int) -> str:
    """Id of the individual for path ``number`` of an agent's run; its birth key is the number."""
    return individual_id(agent_id, str(number))


def component_key(agent_id: str, number: int) -> str:
    """Sixteen hexadecimal digits, derived from the agent's run and the component's number."""
    return canonical.digest([agent_id, "component", number])[:16]


def split_component(full_id: str) -> tuple[str, int]:
    """The agent's name and the number in the id of a component.

    Raises:
        UsageError: The text is no id of a component.
    """
    name, _, number = full_id.rpartition(":")
    if not (name and number.isascii() and number.isdigit() and len(number) <= 12):
        raise UsageError(f"a component is named agent:number; got {full_id[:120]!r}.")
    return name, int(number)


@dataclass(frozen=True)
class NewPath:
    """A path to be recorded before its training.

    Args:
        individual: Individual of the path, with birth ``str(number)``; its details hold the score to beat, the draws
            and the offspring count.
        number: Number of the path among those of its agent, never used before.
        first_component: First of the component numbers reserved for the path.
        new_components: Number of reserved component numbers, which are never reused, even where they stay unused.
        subpaths: Ids of the individuals inside a multipath individual, the main path first.
    """

    individual: NewIndividual
    number: int
    first_component: int
    new_components: int = 0
    subpaths: tuple[str, ...] = ()


@dataclass(frozen=True)
class NewComponent:
    """A component that the training of a path made.

    Args:
        id: ``agent:number``, one of those reserved for its path.
        role: Position in the architecture.
        parameters: Number of parameters.
        digest: Digest of its blob, which is in the pool already.
    """

    id: str
    role: str
    parameters: int
    digest: str


@dataclass(frozen=True)
class Use:
    """A component that a path consists of, and its role in that path; ``id`` is ``agent:number``."""

    role: str
    id: str


@dataclass(frozen=True)
class SystemRow:
    """A multitask system; ``id`` is that of its run, ``name`` is unique in the store."""

    id: str
    name: str
    seed: int
    settings: dict[str, Any]
    created_at: str


@dataclass(frozen=True)
class AgentRow:
    """An agent: one class of paths on one task. ``id`` is that of its run, which is leased and holds its paths."""

    id: str
    system_id: str
    name: str
    kind: str
    task: str
    seed: int
    settings: dict[str, Any]


@dataclass(frozen=True)
class CycleRow:
    """A cycle of an agent.

    Attributes:
        agent_id: Id of the agent.
        number: Number of the cycle, from 0.
        round: Round of the schedule; None where the schedule has no rounds.
        view: Largest seq of the publications in the cycle's view; 0 = none.
        state: open or closed.
        retained: Individuals that the agent keeps for its next cycle beside the published one.
    """

    agent_id: str
    number: int
    round: int | None
    view: int
    state: CycleState
    retained: tuple[str, ...]


@dataclass(frozen=True)
class PathRow:
    """A path: an individual with its number among its agent's paths, its cycle, and its reserved component numbers
    [first_component, end_component)."""

    id: str
    agent_id: str
    number: int
    cycle: int
    first_component: int
    end_component: int


@dataclass(frozen=True)
class ComponentRow:
    """A component; ``path_id`` is the individual for which it was made, ``held`` whether its weights are stored."""

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
    """The path that an agent publishes, valid from ``seq`` on; ``path_id`` None withdraws its earlier publications."""

    seq: int
    agent_id: str
    agent: str
    cycle: int | None
    path_id: str | None


@dataclass(frozen=True)
class Counters:
    """The next unused numbers of an agent's paths and components."""

    path: int
    component: int

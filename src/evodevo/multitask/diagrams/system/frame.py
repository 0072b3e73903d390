"""A multitask system at one moment, as plain data that drawings, pages and outlines read.

µNet (2205.10937) and µ4Net (2302.02721, Fig. 2); docs/spec/munet.md#accounted-parameters.
``multitask/report/picture.py`` reads these facts from a store.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class PartMark:
    """A component.

    Attributes:
        id: ``agent:number``.
        role: its place in a path.
        parameters: number of its parameters.
        task: task of the agent that made it, on which it was last trained; a root's name for a root's.
        root: whether a root made it.
    """

    id: str
    role: str
    parameters: int
    task: str
    root: bool = False


@dataclass(frozen=True)
class OfferedPath:
    """A path that is offered.

    Attributes:
        task: name of its task; a root's name for a root.
        agent: name of its agent.
        path: ``agent/number``.
        parts: its components in the order in which a sample passes them.
        accuracy: accuracy on the validation split, 0 to 1; None for a root that answers nothing.
        test: accuracy on the test split, where it was measured.
        root: whether it is a root's.
    """

    task: str
    agent: str
    path: str
    parts: tuple[str, ...]
    accuracy: float | None
    test: float | None = None
    root: bool = False


@dataclass(frozen=True)
class Stream:
    """A frozen path inside a multipath model.

    Attributes:
        task: name of its task; a root's name for a root.
        path: ``agent/number``.
        parts: its components in order.
        connector: component that maps its representation to the logits; None for the main path.
        weight: mean weight that the router gives it; None where that was not measured.
        offered: whether its agent still offers just this path.
        root: whether it is a root's.
    """

    task: str
    path: str
    parts: tuple[str, ...]
    connector: str | None = None
    weight: float | None = None
    offered: bool = True
    root: bool = False

    @property
    def agent(self) -> str:
        """Name of the agent of the path."""
        return self.path.rpartition("/")[0]


@dataclass(frozen=True)
class Joined:
    """A multipath model.

    Attributes:
        task: name of its task.
        agent: name of its agent.
        path: ``agent/number``.
        streams: the main path first, then its supports.
        router: its component; None where paths are summed.
        accuracy: accuracy on the validation split, 0 to 1.
        test: accuracy on the test split, where it was measured.
    """

    task: str
    agent: str
    path: str
    streams: tuple[Stream, ...]
    router: str | None
    accuracy: float | None
    test: float | None = None


@dataclass(frozen=True)
class SystemFrame:
    """The published paths of a system at one moment.

    Attributes:
        system: name of the system.
        seq: number of the last publication that counts.
        label: description of the last publication.
        tasks: tasks of all agents that the system ever had, in the order in which they were added; roots are none.
        routes: one for each task that is answered, the best by validation accuracy, and one for each root.
        joined: multipath models, at most one for each task.
        parts: id -> component, for all routes and for the multipath models' inner paths and own components.
        withdrawn: names of withdrawn agents.
        heads: number of heads of joint roots that no path uses; they are not drawn.
    """

    system: str
    seq: int
    label: str
    tasks: tuple[str, ...]
    routes: tuple[OfferedPath, ...]
    joined: tuple[Joined, ...]
    parts: Mapping[str, PartMark]
    withdrawn: tuple[str, ...] = ()
    heads: int = 0

    @property
    def parameters(self) -> int:
        """Distinct ones of all that is shown."""
        return sum(part.parameters for part in self.parts.values())

    def number(self, task: str) -> int:
        """Number of a task, from 1, the same in all frames of a system; 0 for a root."""
        return self.tasks.index(task) + 1 if task in self.tasks else 0

    def users(self, part: str) -> tuple[str, ...]:
        """Tasks and roots whose routes pass a component."""
        return tuple(route.task for route in self.routes if part in route.parts)


def mark_of(frame: SystemFrame, part: PartMark) -> str:
    """The task that a component was last trained on, in a few letters: its number, ``R`` for a root."""
    return "R" if part.root else str(frame.number(part.task) or "?")


def percent(accuracy: float | None) -> str:
    """``97.1`` of a hundred; a dash where nothing is known."""
    if accuracy is None:
        return "–"
    return "100" if round(100 * accuracy, 1) >= 100 else f"{100 * accuracy:.1f}"

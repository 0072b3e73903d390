"""What stays of agents that are withdrawn: components that others use, and those that nobody uses any more."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from evodevo.multitask.agent import SystemView


@dataclass(frozen=True)
class Remains:
    """Components of withdrawn agents' paths.

    Attributes:
        used: number of components that other agents' paths use.
        used_parameters: number of their parameters.
        users: agent's name -> how many of them its path uses.
        unused: number of components that nobody uses any more.
        unused_parameters: number of their parameters.
    """

    used: int = 0
    used_parameters: int = 0
    users: Mapping[str, int] = field(default_factory=dict)
    unused: int = 0
    unused_parameters: int = 0


def remains_of(view: SystemView, names: Collection[str]) -> Remains:
    """What stays of these agents' published paths once they are withdrawn, as of a view in which they are not.

    Args:
        view: state of the system before.
        names: names of the agents.
    """
    parts = {part.id: part for name in names if name in view.offers for part in view.offers[name].components}
    users = {part: view.locks.get(part, frozenset()) - set(names) for part in parts}
    used = [part for part in parts if users[part]]
    unused = [part for part in parts if not users[part]]
    return Remains(
        len(used),
        sum(parts[part].parameters for part in used),
        dict(sorted(Counter(name for part in used for name in users[part]).items())),
        len(unused),
        sum(parts[part].parameters for part in unused),
    )

"""For how many parameters of a multitask system an agent answers; it loads nothing, so that a status is quick.

Source: docs/spec/munet.md#accounted-parameters; µNet (2205.10937). A parameter that several agents use is split evenly
among them, so that the accounts of all agents add up to the distinct parameters of the system.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet

Locks = Mapping[str, AbstractSet[str]]
"""Component -> names of the agents whose publication uses it; a component without an entry is used by none."""


def accounted_parameters(components: Iterable[tuple[str, int]], locks: Locks, agent: str) -> float:
    """``Σ parameters(c) / |locks(c) ∪ {agent}|``.

    Args:
        components: (id, parameters) of each component of the path.
        locks: component id -> agents whose publications use it.
        agent: agent of the path; it counts once, whether it published the component already or not.
    """
    return math.fsum(size / len({agent, *locks.get(name, ())}) for name, size in components)

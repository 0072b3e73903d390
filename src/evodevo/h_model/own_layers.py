"""Hidden layers of one output's own: what is added for a domain leaves the answers of all others as they are.

Outputs that use the same hidden layers are answered by one pass, in which the layers of others do not take part:
exactly the network without them (``births``).

Source: docs/spec/h_model.md#layers-of-an-outputs-own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

from torch import Tensor

from evodevo.h_model.core import HCore
from evodevo.h_model.spec import HModelStructure
from evodevo.tasks.base import NO_TARGET, OutputSpec


@dataclass(frozen=True)
class OutputGroup:
    """Outputs that are answered by one pass.

    Attributes:
        outputs: their names, in order.
        absent: places of hidden layers that do not take part in it.
    """

    outputs: tuple[str, ...]
    absent: tuple[int, ...]


def output_groups(structure: HModelStructure, outputs: Sequence[str]) -> tuple[OutputGroup, ...]:
    """The passes that answer these outputs: one, where no layer is of an output's own."""
    groups: dict[tuple[int, ...], list[str]] = {}
    for name in outputs:
        groups.setdefault(structure.absent(name), []).append(name)
    return tuple(OutputGroup(tuple(names), absent) for absent, names in groups.items())


def wanted_groups(
    groups: Sequence[OutputGroup], outputs: Sequence[OutputSpec], batch: Mapping[str, Tensor]
) -> tuple[OutputGroup, ...]:
    """The passes of which a batch has a target; the first, where it has none."""
    if len(groups) == 1:
        return tuple(groups)
    known = {
        spec.name
        for spec in outputs
        if (target := batch.get(f"{spec.name}/target")) is None or _has_target(spec, target)
    }
    return tuple(group for group in groups if known & set(group.outputs)) or (groups[0],)


def group_of(groups: Sequence[OutputGroup], outputs: Sequence[str]) -> list[int]:
    """Number of the group that answers each output; 0 for an output in none."""
    numbers = {name: number for number, group in enumerate(groups) for name in group.outputs}
    return [numbers.get(name, 0) for name in outputs]


def without(core: HCore, places: Sequence[int]) -> AbstractContextManager[None]:
    """The core as if these layers were not there."""
    return as_in_a_pass(core, {**core.births, **dict.fromkeys(places, 0.0)}, tuple(places))


@contextmanager
def as_in_a_pass(core: HCore, births: dict[int, float | Tensor], absent: tuple[int, ...]) -> Iterator[None]:
    """The core with these birth factors and absent layers."""
    before = core.births, core.absent
    core.births, core.absent = births, absent
    try:
        yield
    finally:
        core.births, core.absent = before


def _has_target(spec: OutputSpec, target: Tensor) -> bool:
    known = ~target.isnan() if target.is_floating_point() else target != NO_TARGET
    return bool(known.any())

"""The rows of an ablation: the changes of each to its base, as data (docs/spec/architect_thyself.md#ablation)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Block = Literal["A", "B", "C", "D", "more"]
Base = Literal["nine", "fused", "growing"]
Side = Literal["image", "text"]
BLOCKS: Mapping[Block, str] = {
    "A": "Individual Module System",
    "B": "Feature Extraction Pipeline",
    "C": "Attention Mechanism",
    "D": "Dynamic System Configuration",
    "more": "Further switches",
}
BASES: Mapping[Base, str] = {
    "nine": "the nine modules of Table 3, which do not change",
    "fused": "the recipe's zoo, relative positions in its fusion, and F beside the image's own tokens",
    "growing": "the recipe's zoo, which grows while it trains",
}


@dataclass(frozen=True)
class AblationRow:
    """One row.

    Attributes:
        name: name for ``--rows``.
        title: title in Table 3, or our own words; rows of stored runs are found by it, so it never changes.
        block: block of the table.
        base: the base that it is compared with.
        words: description of the change.
        zoo: changes of the zoo, as ``module_zoo.named.zoo_structure`` takes them.
        extractor: side -> changes of the extractor of every input of that side.
        grow: changes of the growth (``growth.spec.GrowthSettings``), where the base grows.
        forbid: operations that growth may not use.
        rate: factor of the number of events.
        task: changes of the task's settings; those that the task does not have leave the row out.
        needs: sides that the task must have.
        random: whether it begins with as many modules as the base, of random families with random attributes.
        shortest: whether warm-ups last one step, at the common learning rate.
    """

    name: str
    title: str
    block: Block
    base: Base
    words: str
    zoo: Mapping[str, Any] = field(default_factory=dict)
    extractor: Mapping[Side, Mapping[str, Any]] = field(default_factory=dict)
    grow: Mapping[str, Any] = field(default_factory=dict)
    forbid: tuple[str, ...] = ()
    rate: float = 1.0
    task: Mapping[str, Any] = field(default_factory=dict)
    needs: frozenset[Side] = frozenset()
    random: bool = False
    shortest: bool = False

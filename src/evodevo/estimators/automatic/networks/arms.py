"""The networks that a race begins with, by the kinds of input that the data have: few and plain ones first."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from evodevo.estimators.automatic.networks.reading import NetworkReading
from evodevo.estimators.automatic.networks.spec import PlainStructure
from evodevo.module_zoo.modules.families import PAPER
from evodevo.module_zoo.named import zoo_structure
from evodevo.module_zoo.plain_surroundings import PLAIN_SURROUNDINGS
from evodevo.module_zoo.spec import ZooStructure
from evodevo.settings import Settings

ZOO_WIDTH = 64
IMAGES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("convolutions", {"image": "residual"}),
    ("patches", {"image": "patches"}),
    ("fine convolutions", {"image": "residual", "fine": True}),
)
TEXTS: tuple[tuple[str, dict[str, Any]], ...] = (("terms", {"text": "terms"}), ("recurrent", {"text": "recurrent"}))
NUMBERS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("mlp", {"numbers": "mlp"}),
    ("pieces", {"numbers": "pieces"}),
    ("residual", {"numbers": "residual"}),
)
"""Encoders of each kind of input, in words and as fields of ``PlainStructure``."""


class ArmStructure(Settings):
    """A network of a race; exactly one of the two is given.

    Attributes:
        plain: Network without modules.
        zoo: Zoo of modules, or a single one.
    """

    plain: PlainStructure | None = None
    zoo: ZooStructure | None = None


@dataclass(frozen=True)
class Arm:
    """A network of a race.

    Attributes:
        name: Name in reports.
        structure: The network.
        learning_rate: Highest learning rate.
        epochs: Most passes over the training samples.
    """

    name: str
    structure: ArmStructure
    learning_rate: float
    epochs: int


def arms_for(reading: NetworkReading) -> list[Arm]:
    """Plain networks, then single modules, then the whole zoo; of images alone only plain ones.

    Modules read an image after it was cut into patches, as ``patches`` does without a module. All have little around
    them, for a short race.
    """
    kinds = [
        table
        for table, part in ((IMAGES, reading.image), (TEXTS, reading.text), (NUMBERS, reading.numbers))
        if part is not None
    ]
    arms = []
    # The first of each kind, the second of each, ...; a kind that has no more keeps its first.
    for chosen in zip_longest(*kinds):
        parts = [part or kind[0] for part, kind in zip(chosen, kinds, strict=True)]
        fields = {name: value for _, values in parts for name, value in values.items()}
        arms.append(_plain(" + ".join(name for name, _ in parts), PlainStructure(**fields)))
    if reading.text is None and reading.numbers is None:
        return arms
    singles = [_zoo(f"zoo: {name}", name) for name in PAPER]
    return [*arms, *singles, _zoo("zoo: all modules", "start")]


def _plain(name: str, structure: PlainStructure) -> Arm:
    # Over texts they overfit within few epochs. Of three rates for terms, 4e-3 had the lowest mean validation loss
    # on sst2 and trec.
    if structure.text is not None:
        return Arm(name, ArmStructure(plain=structure), 4e-3, 30)
    return Arm(name, ArmStructure(plain=structure), 4e-3 if structure.image is not None else 3e-3, 100)


def _zoo(name: str, modules: str) -> Arm:
    structure = zoo_structure({**PLAIN_SURROUNDINGS, "pool": "positions", "width": ZOO_WIDTH, "modules": modules})
    return Arm(name, ArmStructure(zoo=structure), 2e-3, 60)

"""The networks that a race begins with, by the kinds of input that the data have: few and plain ones first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evodevo.estimators.automatic.features.package_root import RootReading
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
ROOT_RATE = 2e-3
"""Highest learning rate of a network that begins as a root; chosen by hand among four."""
OF_ROOT = "encoders.image.root.parts."
"""Before the names of a root's weights in a network."""


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
        initial: Weights with which it begins, by their names in the network; those that are not named are new.
        moves: Whether its training images are moved by chance.
    """

    name: str
    structure: ArmStructure
    learning_rate: float
    epochs: int
    initial: Mapping[str, NDArray[np.float32]] = field(default_factory=dict, compare=False, repr=False)
    moves: bool = True


def arms_for(reading: NetworkReading, root: RootReading | None = None) -> list[Arm]:
    """Plain networks, single modules, then the whole zoo; of images alone a root that goes on learning, and no modules.

    Modules read an image after it was cut into patches, as ``patches`` does without a module. All have little around
    them, for a short race.

    Args:
        reading: Inputs of the samples.
        root: A root of the package; None where none takes part.
    """
    kinds = [
        table
        for table, part in ((IMAGES, reading.image), (TEXTS, reading.text), (NUMBERS, reading.numbers))
        if part is not None
    ]
    arms = []
    if root is not None and reading.image is not None and len(kinds) == 1:
        structure = PlainStructure(image="root", root=root.structure)
        initial = {f"{OF_ROOT}{role}": array for role, array in root.weights.items()}
        tuned = replace(_plain(f"{root.name}, fine-tuned", structure), learning_rate=ROOT_RATE, initial=initial)
        arms.append(tuned)
        if reading.image.shift:  # where things are may tell classes apart
            arms.append(replace(tuned, name=f"{tuned.name}, images not moved", moves=False))
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

"""Edit around the modules: a learned map of each position in place of the mean."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from evodevo.errors import UsageError
from evodevo.growth.around.base import AroundEdit
from evodevo.growth.around.spec import AroundSettings
from evodevo.module_zoo.cost import positions_read
from evodevo.module_zoo.spec import ZooStructure
from evodevo.networks.canvas import NamedInput

if TYPE_CHECKING:
    from evodevo.module_zoo.model import ModuleZoo


class MapPositions(AroundEdit):
    """The outputs of modules are pooled by a map of each position, each the identity at first: still the mean.

    For data in which it counts where something is; it has as many maps as there are positions.
    """

    name = "map_positions"
    done = "given a map of each position"
    letter = "P"

    def changed(self, structure: ZooStructure, settings: AroundSettings) -> ZooStructure:
        """See ``AroundEdit``."""
        if structure.pool != "mean":
            raise UsageError(f"the modules' outputs are pooled by {structure.pool} already")
        return structure.model_copy(update={"pool": "positions"})

    def misfit(self, structure: ZooStructure, inputs: Sequence[NamedInput]) -> str | None:
        """See ``AroundEdit``."""
        known = positions_read(structure, inputs)
        return None if known else "the number of positions that the modules read is not known"

    def apply(self, network: ModuleZoo, settings: AroundSettings, seed: int) -> None:
        """See ``AroundEdit``; nothing is drawn."""
        network.map_positions()

"""Edit around the modules: a hidden layer before the heads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evodevo.errors import UsageError
from evodevo.growth.around.base import AroundEdit
from evodevo.growth.around.spec import AroundSettings
from evodevo.module_zoo.spec import ZooStructure

if TYPE_CHECKING:
    from evodevo.module_zoo.model import ModuleZoo


class AddReadout(AroundEdit):
    """A layer comes between the mixture of the modules and the heads, which passes it on at first.

    Linear heads of a mean add up what modules make of image and text where these work on each position by itself.
    """

    name = "add_readout"
    done = "given a layer before the heads"
    letter = "O"

    def changed(self, structure: ZooStructure, settings: AroundSettings) -> ZooStructure:
        """See ``AroundEdit``."""
        if structure.readout:
            raise UsageError(f"there is a layer of {structure.readout} units before the heads already")
        return structure.model_copy(update={"readout": settings.hidden})

    def apply(self, network: ModuleZoo, settings: AroundSettings, seed: int) -> None:
        """See ``AroundEdit``."""
        network.add_readout(settings.hidden, seed)

"""Edit in place: more units."""

from __future__ import annotations

from evodevo.growth.in_place.base import InPlaceEdit
from evodevo.growth.in_place.spec import InPlaceSettings
from evodevo.module_zoo.modules.sizes import wider
from evodevo.module_zoo.modules.spec import ModuleGenotype


class Widen(InPlaceEdit):
    """A module gets ``factor`` times as many hidden units (Net2Net, Chen et al. 2016).

    With units z of the old module, W the weights that read them and z' the new ones

        fresh    W z + 0 z'
        twins    (W / 2 + E) z + (W / 2 - E) z'      z' = z at first
    """

    name = "widen"
    done = "widened"
    letter = "W"

    def child(self, genotype: ModuleGenotype, settings: InPlaceSettings) -> ModuleGenotype:
        """See ``InPlaceEdit``."""
        return wider(genotype, settings.factor)

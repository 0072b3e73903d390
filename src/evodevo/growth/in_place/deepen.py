"""Edit in place: one more block."""

from __future__ import annotations

from evodevo.growth.in_place.base import InPlaceEdit
from evodevo.growth.in_place.spec import InPlaceSettings
from evodevo.module_zoo.modules.sizes import deeper
from evodevo.module_zoo.modules.spec import ModuleGenotype


class Deepen(InPlaceEdit):
    """A module gets a further block f behind the others, z + f(z), whose last map is 0 at first."""

    name = "deepen"
    done = "deepened"
    letter = "D"

    def child(self, genotype: ModuleGenotype, settings: InPlaceSettings) -> ModuleGenotype:
        """See ``InPlaceEdit``."""
        return deeper(genotype)

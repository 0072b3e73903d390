"""The settings of a space of zoos."""

from __future__ import annotations

from pydantic import Field

from evodevo.module_zoo.genome import ALL, FusionKind, Keys, Synergy
from evodevo.module_zoo.modules.families import PAPER
from evodevo.module_zoo.spec import Gate, ZooStructure
from evodevo.settings import Settings


class ModuleZooSpaceSettings(Settings):
    """The settings of a space of zoos.

    Attributes:
        modules_range: (fewest, most) modules in a pool.
        archetypes: archetypes of the modules that are drawn; ``evodevo.module_zoo.modules.zoo.ARCHETYPES`` has them
            all.
        hybrids: free graphs may be in a pool. None is drawn; they come from growth, or are written by hand.
        fusions, gates, synergies, heads, keys: values that genomes may have, as in ``FusionStructure`` and
            ``ZooRouterStructure``. Heads divide the width.
        top_ks: values of K that genomes may have; 0 is no limit, and a limit that is not below the number of modules is
            none.
        structure: everything else; its modules, fusion kind and those choices of the router are the genome's.
    """

    modules_range: tuple[int, int] = (2, 6)
    archetypes: tuple[str, ...] = PAPER
    hybrids: bool = False
    fusions: tuple[FusionKind, ...] = ("asym_residual", "symmetric", "concat", "gmu")
    gates: tuple[Gate, ...] = ("softmax", "sparsemax", "entmax15")
    synergies: tuple[Synergy, ...] = ("off", "similar", "complement")
    heads: tuple[int, ...] = (1, 2, 4)
    top_ks: tuple[int, ...] = (1, 2, 3, 4, ALL)
    keys: tuple[Keys, ...] = ("output", "genotype", "predictor")
    structure: ZooStructure = Field(default_factory=ZooStructure)

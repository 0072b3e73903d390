"""The layer of kind ``genotype``: a module of a zoo as a layer of another network.

Legend: S positions, d width.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from evodevo.errors import UsageError
from evodevo.module_zoo.modules.cost import genotype_parameters, genotype_work
from evodevo.module_zoo.modules.families import family_of
from evodevo.module_zoo.modules.graph import check_graph
from evodevo.module_zoo.modules.spec import ModuleGenotype, ZooModule
from evodevo.module_zoo.modules.zoo import words
from evodevo.operators.cost import Work
from evodevo.operators.layers.base import LayerSpec

if TYPE_CHECKING:
    from evodevo.operators.base import Operator
    from evodevo.operators.source.sheet import SourceSheet


class GenotypeLayer(LayerSpec):
    """A module of a zoo: any graph of typed nodes, under an id that stays when its place moves.

    In a causal H-Model every node must read one position alone.

    Attributes:
        module: id, genotype and descent; its seed is that of growth: an H-Model draws the weights of its first layers
            from its own seed.
    """

    kind: Literal["genotype"] = "genotype"
    module: ZooModule

    def checked(self, width: int, causal: bool) -> ModuleGenotype:
        """The genotype, where it can be a layer of d channels.

        Raises:
            UsageError: it is made for another width, or reads other positions in a causal model.
            GenomeError: its graph is not valid.
        """
        name, genotype = self.module.id, self.module.genotype
        if genotype.width != width:
            raise UsageError(
                f"the module {name!r} is made for width {genotype.width}, not {width}: set the layer's width to "
                f"{genotype.width}, and adapters are put around it."
            )
        check_graph(genotype.graph, genotype.width)
        others = [node.id for node in genotype.graph.nodes if not node.position_wise] if causal else []
        if others:
            raise UsageError(
                f"the module {name!r} looks at later positions by its node {others[0]!r}; a causal model can only have "
                "modules that look at each position alone, such as the archetype mlp."
            )
        return genotype

    def own_parameters(self, width: int, causal: bool) -> int:
        """See ``genotype_parameters``."""
        return genotype_parameters(self.checked(width, causal))

    def own_work(self, width: int, length: int, *, causal: bool, visible: bool) -> Work:
        """See ``genotype_work``."""
        return genotype_work(self.checked(width, causal), length)

    def build(self, width: int, *, causal: bool, residual: bool) -> Operator:
        """The module; weights have the names that they have in a zoo.

        Raises:
            UsageError: another width, residuals taken away, or a module that reads other positions in a causal model.
            GenomeError: its graph is not valid.
        """
        from evodevo.module_zoo.modules.build import build_module
        from evodevo.module_zoo.modules.layer import PositionModule

        genotype = self.checked(width, causal)
        if not residual:
            raise UsageError("a module of a zoo has the residuals of its graph; use other layers in this control.")
        return PositionModule(genotype) if causal else build_module(genotype)

    def source(self, sheet: SourceSheet, width: int, *, causal: bool, residual: bool) -> str:
        """See ``LayerSpec``."""
        from evodevo.module_zoo.source.modules import module_source

        return module_source(sheet, self.checked(width, causal))

    @property
    def type_name(self) -> str:
        """The archetype."""
        return self.module.genotype.archetype

    @property
    def label(self) -> str:
        """The id."""
        return self.module.id

    def family(self, width: int) -> str:
        """Family of the genotype."""
        return family_of(self.module.genotype)

    def sizes(self, width: int) -> str:
        """The genotype's attributes."""
        return words(self.module.genotype)

    @property
    def zoo_module(self) -> ZooModule:
        """The module."""
        return self.module

    @property
    def nesting(self) -> int:
        """Nesting depth of the deepest layer among the nodes."""
        nodes = self.module.genotype.graph.nodes
        return max((node.held_layer.nesting for node in nodes if node.held_layer is not None), default=0)

"""The zoo of modules as a row of the table of networks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from evodevo.module_zoo.cost import zoo_cost
from evodevo.module_zoo.draw import zoo_drawing, zoo_words
from evodevo.module_zoo.reading import ReadingNetwork
from evodevo.module_zoo.spec import ZooStructure
from evodevo.networks.spec import NetworkSpec
from evodevo.operators.cost import Cost

if TYPE_CHECKING:
    from evodevo.module_zoo.model import ModuleZoo
    from evodevo.operators.source.sheet import Program, RepresentationSource, SourceSheet
    from evodevo.tasks.base import OutputSpec
    from evodevo.tasks.inputs import InputSpec


class ModuleZooNetwork(ReadingNetwork):
    """A zoo of modules."""

    kind: Literal["module_zoo"] = "module_zoo"
    structure: ZooStructure = ZooStructure()
    structure_cost: ClassVar[Callable[..., Cost]] = staticmethod(zoo_cost)

    def describe(self) -> list[str]:
        """See ``NetworkSpec``."""
        return zoo_words(self.structure)

    def draw(
        self, *, title: str, subtitle: str = "", group: str = "", facts: Mapping[str, Any] | None = None
    ) -> str | None:
        """See ``NetworkSpec``: with what the router did, where the network was trained."""
        return zoo_drawing(self.structure, title=title, subtitle=subtitle, routing=(facts or {}).get("routing"))

    def build(self, inputs: tuple[InputSpec, ...], outputs: tuple[OutputSpec, ...]) -> ModuleZoo:
        """See ``NetworkSpec`` and ``module_zoo.model.ModuleZoo``."""
        from evodevo.module_zoo.model import ModuleZoo

        return ModuleZoo(self.structure, inputs, outputs)

    @classmethod
    def source(cls, network: Any) -> Program:
        """See ``NetworkSpec``."""
        from evodevo.module_zoo.source.program import zoo_program

        return zoo_program(network)

    @classmethod
    def represented_source(cls, network: Any, sheet: SourceSheet) -> RepresentationSource:
        """See ``NetworkSpec``."""
        from evodevo.module_zoo.source.program import zoo_representation

        return zoo_representation(network, sheet)


def structure_of_zoo(network: NetworkSpec) -> ZooStructure | None:
    """The structure of a zoo; None for a network of another kind."""
    return network.structure if isinstance(network, ModuleZooNetwork) else None

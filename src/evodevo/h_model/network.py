"""The H-Model as a row of the table of networks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from evodevo.h_model.cost import h_model_cost
from evodevo.h_model.draw import h_model_drawing, h_model_words
from evodevo.h_model.spec import HModelStructure
from evodevo.networks.spec import NetworkSpec
from evodevo.operators.cost import Cost

if TYPE_CHECKING:
    from evodevo.h_model.model import HModel
    from evodevo.operators.layers.base import Layer
    from evodevo.operators.source.sheet import Program, RepresentationSource, SourceSheet
    from evodevo.tasks.base import OutputSpec
    from evodevo.tasks.inputs import InputSpec


class HModelNetwork(NetworkSpec):
    """An H-Model."""

    kind: Literal["h_model"] = "h_model"
    structure: HModelStructure = HModelStructure()
    structure_cost: ClassVar[Callable[..., Cost]] = staticmethod(h_model_cost)

    @property
    def layers(self) -> tuple[Layer, ...]:
        """See ``NetworkSpec``."""
        return self.structure.hidden

    def with_layers(self, layers: tuple[Layer, ...]) -> Self:
        """See ``NetworkSpec``."""
        return self.model_copy(update={"structure": self.structure.model_copy(update={"hidden": layers})})

    def describe(self) -> list[str]:
        """See ``NetworkSpec``."""
        return h_model_words(self.structure)

    def draw(
        self, *, title: str, subtitle: str = "", group: str = "", facts: Mapping[str, Any] | None = None
    ) -> str | None:
        """See ``NetworkSpec``."""
        return h_model_drawing(self.structure, title=title, subtitle=group or subtitle)

    def build(self, inputs: tuple[InputSpec, ...], outputs: tuple[OutputSpec, ...]) -> HModel:
        """See ``NetworkSpec`` and ``h_model.model.HModel``."""
        from evodevo.h_model.model import HModel

        return HModel(self.structure, inputs, outputs)

    @classmethod
    def source(cls, network: Any) -> Program:
        """See ``NetworkSpec``."""
        from evodevo.h_model.source.program import h_model_program

        return h_model_program(network)

    @classmethod
    def represented_source(cls, network: Any, sheet: SourceSheet) -> RepresentationSource:
        """See ``NetworkSpec``."""
        from evodevo.h_model.source.program import h_model_representation

        return h_model_representation(network, sheet)


def structure_of_h_model(network: NetworkSpec) -> HModelStructure | None:
    """The structure of an H-Model; None for a network of another kind."""
    return network.structure if isinstance(network, HModelNetwork) else None

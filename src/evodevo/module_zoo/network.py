"""The zoo of modules as a row of the table of networks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Self

from evodevo.module_zoo.cost import zoo_cost
from evodevo.module_zoo.draw import zoo_drawing, zoo_words
from evodevo.module_zoo.spec import ZooStructure
from evodevo.networks.canvas import NamedInput, OutputSizes
from evodevo.networks.spec import NetworkSpec
from evodevo.networks.towers.files import frozen_towers, settled
from evodevo.networks.towers.spec import ExtractorStructure
from evodevo.operators.cost import Cost, Mode

if TYPE_CHECKING:
    from evodevo.module_zoo.model import ModuleZoo
    from evodevo.tasks.base import OutputSpec
    from evodevo.tasks.inputs import InputSpec


class ModuleZooNetwork(NetworkSpec):
    """A zoo of modules."""

    kind: Literal["module_zoo"] = "module_zoo"
    structure: ZooStructure = ZooStructure()

    def cost(
        self,
        *,
        inputs: Sequence[NamedInput] = (),
        outputs: Sequence[OutputSizes] = (),
        length: int | None = None,
        batch: int = 1,
        mode: Mode = "prefill",
    ) -> Cost:
        """See ``NetworkSpec`` and ``zoo_cost``."""
        return zoo_cost(self.structure, inputs=inputs, outputs=outputs, length=length, batch=batch, mode=mode)

    def describe(self) -> list[str]:
        """See ``NetworkSpec``."""
        return zoo_words(self.structure)

    def draw(
        self, *, title: str, subtitle: str = "", group: str = "", facts: Mapping[str, Any] | None = None
    ) -> str | None:
        """See ``NetworkSpec``: with what the router did, where the network was trained."""
        return zoo_drawing(self.structure, title=title, subtitle=subtitle, routing=(facts or {}).get("routing"))

    def towers(self, inputs: Sequence[InputSpec]) -> dict[str, ExtractorStructure]:
        """See ``NetworkSpec``."""
        return frozen_towers(self.structure, inputs)

    def settled(self) -> Self:
        """See ``NetworkSpec``."""
        return self.model_copy(update={"structure": settled(self.structure)})

    def build(self, inputs: tuple[InputSpec, ...], outputs: tuple[OutputSpec, ...]) -> ModuleZoo:
        """See ``NetworkSpec`` and ``module_zoo.model.ModuleZoo``."""
        from evodevo.module_zoo.model import ModuleZoo

        return ModuleZoo(self.structure, inputs, outputs)

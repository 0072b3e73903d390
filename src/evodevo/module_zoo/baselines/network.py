"""The opponents of a zoo as a row of the table of networks.

Source: docs/spec/architect_thyself.md#opponents.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, Self

from evodevo.module_zoo.baselines.cost import baseline_cost
from evodevo.module_zoo.baselines.spec import BaselineStructure
from evodevo.module_zoo.draw import baseline_words
from evodevo.networks.canvas import NamedInput, OutputSizes
from evodevo.networks.spec import NetworkSpec
from evodevo.networks.towers.files import frozen_towers, settled
from evodevo.networks.towers.spec import ExtractorStructure
from evodevo.operators.cost import Cost, Mode

if TYPE_CHECKING:
    from evodevo.module_zoo.baselines.model import BaselineModel
    from evodevo.tasks.base import OutputSpec
    from evodevo.tasks.inputs import InputSpec


class BaselineNetwork(NetworkSpec):
    """An opponent of a zoo."""

    kind: Literal["baseline"] = "baseline"
    structure: BaselineStructure = BaselineStructure()

    def cost(
        self,
        *,
        inputs: Sequence[NamedInput] = (),
        outputs: Sequence[OutputSizes] = (),
        length: int | None = None,
        batch: int = 1,
        mode: Mode = "prefill",
    ) -> Cost:
        """See ``NetworkSpec`` and ``baseline_cost``."""
        return baseline_cost(self.structure, inputs=inputs, outputs=outputs, length=length, batch=batch, mode=mode)

    def describe(self) -> list[str]:
        """See ``NetworkSpec``."""
        return baseline_words(self.structure)

    def towers(self, inputs: Sequence[InputSpec]) -> dict[str, ExtractorStructure]:
        """See ``NetworkSpec``."""
        return frozen_towers(self.structure, inputs)

    def settled(self) -> Self:
        """See ``NetworkSpec``."""
        return self.model_copy(update={"structure": settled(self.structure)})

    def build(self, inputs: tuple[InputSpec, ...], outputs: tuple[OutputSpec, ...]) -> BaselineModel:
        """See ``NetworkSpec`` and ``module_zoo.baselines.model.BaselineModel``."""
        from evodevo.module_zoo.baselines.model import BaselineModel

        return BaselineModel(self.structure, inputs, outputs)

"""Ensemble of a zoo's modules without a router, as a row of the table of networks.

Source: docs/spec/architect_thyself.md#opponents.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, Self

from evodevo.module_zoo.cost import ensemble_cost
from evodevo.module_zoo.draw import ensemble_words
from evodevo.module_zoo.spec import ZooStructure
from evodevo.networks.canvas import NamedInput, OutputSizes
from evodevo.networks.spec import NetworkSpec
from evodevo.networks.towers.files import frozen_towers, settled
from evodevo.networks.towers.spec import ExtractorStructure
from evodevo.operators.cost import Cost, Mode

if TYPE_CHECKING:
    from evodevo.module_zoo.baselines.ensemble_model import ModuleEnsemble
    from evodevo.tasks.base import OutputSpec
    from evodevo.tasks.inputs import InputSpec


class ModuleEnsembleNetwork(NetworkSpec):
    """The mean of the logits of networks, one for each module of a zoo, each trained as if it were alone."""

    kind: Literal["module_ensemble"] = "module_ensemble"
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
        """See ``NetworkSpec`` and ``ensemble_cost``."""
        return ensemble_cost(self.structure, inputs=inputs, outputs=outputs, length=length, batch=batch, mode=mode)

    def describe(self) -> list[str]:
        """See ``NetworkSpec``."""
        return ensemble_words(self.structure)

    def towers(self, inputs: Sequence[InputSpec]) -> dict[str, ExtractorStructure]:
        """See ``NetworkSpec``."""
        return frozen_towers(self.structure, inputs)

    def settled(self) -> Self:
        """See ``NetworkSpec``."""
        return self.model_copy(update={"structure": settled(self.structure)})

    def build(self, inputs: tuple[InputSpec, ...], outputs: tuple[OutputSpec, ...]) -> ModuleEnsemble:
        """See ``NetworkSpec`` and ``ensemble_model.ModuleEnsemble``."""
        from evodevo.module_zoo.baselines.ensemble_model import ModuleEnsemble

        return ModuleEnsemble(self.structure, inputs, outputs)

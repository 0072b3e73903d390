"""Ensemble of a zoo's modules without a router, as a row of the table of networks.

Source: docs/spec/architect_thyself.md#opponents.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar, Literal

from evodevo.module_zoo.cost import ensemble_cost
from evodevo.module_zoo.draw import ensemble_words
from evodevo.module_zoo.reading import ReadingNetwork
from evodevo.module_zoo.spec import ZooStructure
from evodevo.operators.cost import Cost

if TYPE_CHECKING:
    from evodevo.module_zoo.baselines.ensemble_model import ModuleEnsemble
    from evodevo.tasks.base import OutputSpec
    from evodevo.tasks.inputs import InputSpec


class ModuleEnsembleNetwork(ReadingNetwork):
    """The mean of the logits of networks, one for each module of a zoo, each trained as if it were alone."""

    kind: Literal["module_ensemble"] = "module_ensemble"
    structure: ZooStructure = ZooStructure()
    structure_cost: ClassVar[Callable[..., Cost]] = staticmethod(ensemble_cost)

    def describe(self) -> list[str]:
        """See ``NetworkSpec``."""
        return ensemble_words(self.structure)

    def build(self, inputs: tuple[InputSpec, ...], outputs: tuple[OutputSpec, ...]) -> ModuleEnsemble:
        """See ``NetworkSpec`` and ``ensemble_model.ModuleEnsemble``."""
        from evodevo.module_zoo.baselines.ensemble_model import ModuleEnsemble

        return ModuleEnsemble(self.structure, inputs, outputs)

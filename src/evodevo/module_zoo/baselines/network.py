"""The opponents of a zoo as a row of the table of networks.

Source: docs/spec/architect_thyself.md#opponents.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar, Literal

from evodevo.module_zoo.baselines.cost import baseline_cost
from evodevo.module_zoo.baselines.spec import BaselineStructure
from evodevo.module_zoo.draw import baseline_words
from evodevo.module_zoo.reading import ReadingNetwork
from evodevo.operators.cost import Cost

if TYPE_CHECKING:
    from evodevo.module_zoo.baselines.model import BaselineModel
    from evodevo.tasks.base import OutputSpec
    from evodevo.tasks.inputs import InputSpec


class BaselineNetwork(ReadingNetwork):
    """An opponent of a zoo."""

    kind: Literal["baseline"] = "baseline"
    structure: BaselineStructure = BaselineStructure()
    structure_cost: ClassVar[Callable[..., Cost]] = staticmethod(baseline_cost)

    def describe(self) -> list[str]:
        """See ``NetworkSpec``."""
        return baseline_words(self.structure)

    def build(self, inputs: tuple[InputSpec, ...], outputs: tuple[OutputSpec, ...]) -> BaselineModel:
        """See ``NetworkSpec`` and ``module_zoo.baselines.model.BaselineModel``."""
        from evodevo.module_zoo.baselines.model import BaselineModel

        return BaselineModel(self.structure, inputs, outputs)

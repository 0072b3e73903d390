"""Stacks that answer together, the simplest way to use several networks at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple
from typing import TYPE_CHECKING, Literal

from evodevo.networks.canvas import InputSizes, OutputSizes
from evodevo.networks.spec import NetworkSpec
from evodevo.networks.stacks.spec import EnsembleStructure
from evodevo.networks.stacks.stack import stack_cost, stack_words
from evodevo.operators.cost import Cost, Mode

if TYPE_CHECKING:
    from evodevo.networks.stacks.ensemble_model import Ensemble
    from evodevo.tasks.base import OutputSpec
    from evodevo.tasks.inputs import InputSpec


class EnsembleNetwork(NetworkSpec):
    """An ensemble."""

    kind: Literal["ensemble"] = "ensemble"
    structure: EnsembleStructure = EnsembleStructure()

    def cost(
        self,
        *,
        inputs: Sequence[InputSizes] = (),
        outputs: Sequence[OutputSizes] = (),
        length: int | None = None,
        batch: int = 1,
        mode: Mode = "prefill",
    ) -> Cost:
        """See ``NetworkSpec``: the sum over the members."""
        costs = [
            stack_cost(member, inputs=inputs, outputs=outputs, length=length, batch=batch, mode=mode)
            for member in self.structure.members
        ]
        return Cost(*(sum(values) for values in zip(*map(astuple, costs), strict=True)))

    def describe(self) -> list[str]:
        """See ``NetworkSpec``."""
        members = self.structure.members
        return [f"{len(members)} stacks that answer together.", *map(stack_words, members)]

    def build(self, inputs: tuple[InputSpec, ...], outputs: tuple[OutputSpec, ...]) -> Ensemble:
        """See ``NetworkSpec`` and ``ensemble_model.Ensemble``."""
        from evodevo.networks.stacks.ensemble_model import Ensemble

        return Ensemble(self.structure, inputs, outputs)

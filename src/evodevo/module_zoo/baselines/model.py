"""Baselines of the zoo: its encoders and heads, with the trunk of ``BaselineStructure.style`` between them.

Source: docs/spec/architect_thyself.md#opponents.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor, nn

from evodevo.errors import UsageError
from evodevo.module_zoo.baselines.cost import STATISTICS, baseline_reads
from evodevo.module_zoo.baselines.fusion import ConcatTrunk, GatedTrunk, LateTrunk
from evodevo.module_zoo.baselines.mixture import MixtureTrunk
from evodevo.module_zoo.baselines.spec import BaselineStructure
from evodevo.module_zoo.baselines.streams import CrossModalityTrunk, TwoStreamTrunk
from evodevo.module_zoo.baselines.trunk import Trunk, TrunkOutput
from evodevo.module_zoo.encoders.model import Senses
from evodevo.networks.base import Batch, Network, Representation
from evodevo.networks.outputs import OutputHeads
from evodevo.tasks.base import OutputSpec
from evodevo.tasks.inputs import InputSpec

TRUNKS: dict[str, Callable[[BaselineStructure, int], Trunk]] = {
    "concat_mlp": ConcatTrunk,
    "late_fusion": LateTrunk,
    "gated_unit": GatedTrunk,
    "two_stream": TwoStreamTrunk,
    "cross_modality": CrossModalityTrunk,
    "switch": MixtureTrunk,
    "st_moe": MixtureTrunk,
    "soft_moe": MixtureTrunk,
    "dyn_moe": MixtureTrunk,
}


class BaselineModel(Network):
    """A baseline network. A missing modality is replaced by its learned token, as in the zoo.

    Args:
        structure: Kind and sizes of the network.
        inputs, outputs: Inputs and outputs of the task; outputs are classes and labels.

    Raises:
        UsageError: An output of tokens.
    """

    def __init__(
        self, structure: BaselineStructure, inputs: tuple[InputSpec, ...], outputs: tuple[OutputSpec, ...]
    ) -> None:
        super().__init__(inputs, outputs)
        if any(spec.kind == "tokens" for spec in outputs):
            raise UsageError("an opponent of the zoo answers with classes and labels; it does not predict tokens.")
        self.structure = structure
        self.senses = Senses(structure, STATISTICS, inputs, reads=baseline_reads(structure))
        modalities = sum(1 for side in self.senses.sides if side)
        self.trunk = TRUNKS[structure.style](structure, modalities)
        self.heads = OutputHeads(outputs, structure.width)
        learns_sides = structure.style == "late_fusion" and structure.modality_loss > 0
        self.side_heads = nn.ModuleList(
            OutputHeads(outputs, structure.width) for _ in range(modalities if learns_sides else 0)
        )

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """See ``Network``."""
        answers: dict[str, Tensor] = self.heads(self._think(batch).pooled)
        return answers

    def unrepresented(self) -> tuple[str, ...]:
        """See ``Network``."""
        return ("heads", "side_heads")

    def represent(self, batch: Batch) -> Representation:
        """See ``Network``: the trunk's tokens; where it has none, its one vector as a sequence of length 1."""
        thought = self._think(batch)
        return Representation(thought.tokens, thought.mask, thought.pooled)

    def loss(self, batch: Batch) -> Tensor:
        """The task's loss; while training also the losses on routing and those of each modality's own heads."""
        thought = self._think(batch)
        terms = {"task": self.answers_loss(self.heads(thought.pooled), batch)}
        if self.training:
            terms.update(thought.terms)
            if len(self.side_heads):
                own = [
                    self.answers_loss(heads(side), batch)
                    for heads, side in zip(self.side_heads, thought.sides, strict=True)
                ]
                terms["modalities"] = self.structure.modality_loss * torch.stack(own).mean()
        self.terms = {name: value.detach() for name, value in terms.items()}
        return torch.stack([value.float() for value in terms.values()]).sum()

    def learning_rates(self) -> dict[str, float]:
        """See ``Network``: pretrained towers have a learning rate of their own."""
        return {f"senses.{name}": factor for name, factor in self.senses.learning_rates().items()}

    def _think(self, batch: Batch) -> TrunkOutput:
        precise = next(self.heads.parameters()).dtype  # of residual streams, also where autocast halves what they hold
        senses = [
            replace(modality, tokens=modality.tokens.to(precise), vector=modality.vector.to(precise))
            for modality in self.senses(batch)
            if modality is not None
        ]
        thought: TrunkOutput = self.trunk(senses)
        return thought

"""Stacks that answer together, the simplest way to use several networks at once (docs/spec/h_model.md#experiments)."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn

from evodevo.networks.base import Batch, Network, Representation
from evodevo.networks.stacks.spec import EnsembleStructure
from evodevo.networks.stacks.stack_model import LayerStack
from evodevo.tasks.base import OutputSpec
from evodevo.tasks.inputs import InputSpec


class Ensemble(Network):
    """The mean of its members' logits. Each member is trained as if it were alone.

    Args:
        structure: the members.
        inputs, outputs: inputs and outputs of the task.

    Raises:
        UsageError: see ``LayerStack``.
    """

    def __init__(
        self, structure: EnsembleStructure, inputs: tuple[InputSpec, ...], outputs: tuple[OutputSpec, ...]
    ) -> None:
        super().__init__(inputs, outputs)
        self.structure = structure
        self.members = nn.ModuleList(LayerStack(member, inputs, outputs) for member in structure.members)

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """See ``Network``."""
        answers = [member(batch) for member in self.members]
        return {name: torch.stack([answer[name] for answer in answers]).mean(0) for name in answers[0]}

    def represent(self, batch: Batch) -> Representation:
        """See ``Network``: all members' channels side by side."""
        each = [member.represent(batch) for member in self._stacks()]
        tokens = torch.cat([representation.tokens for representation in each], -1)
        return Representation(tokens, each[0].mask, torch.cat([representation.pooled for representation in each], -1))

    def loss(self, batch: Batch) -> Tensor:
        """The mean of the members' own losses, so that none leans on another."""
        return torch.stack([member.loss(batch) for member in self._stacks()]).mean()

    def _stacks(self) -> list[LayerStack]:
        return cast("list[LayerStack]", list(self.members))

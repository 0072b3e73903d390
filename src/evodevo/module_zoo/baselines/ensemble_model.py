"""The modules of a zoo that answer together without a router: the mean of networks with one module each.

Source: docs/spec/architect_thyself.md#opponents.
"""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn

from evodevo.module_zoo.cost import ensemble_members
from evodevo.module_zoo.model import ModuleZoo
from evodevo.module_zoo.spec import ZooStructure
from evodevo.networks.base import Batch, Network, Representation
from evodevo.tasks.base import OutputSpec
from evodevo.tasks.inputs import InputSpec


class ModuleEnsemble(Network):
    """The mean of its members' logits. Each member is trained as if it were alone, and has encoders of its own.

    Args:
        structure: a zoo; each of its live modules is the only module of one member.
        inputs, outputs: inputs and outputs of the task.

    Attributes:
        ids: ids of the modules, in the order of ``members``.

    Raises:
        UsageError: no live module; see also ``ModuleZoo``.
    """

    def __init__(self, structure: ZooStructure, inputs: tuple[InputSpec, ...], outputs: tuple[OutputSpec, ...]) -> None:
        super().__init__(inputs, outputs)
        self.structure = structure
        self.ids = tuple(module.id for module in structure.live)
        self.members = nn.ModuleList(ModuleZoo(member, inputs, outputs) for member in ensemble_members(structure))

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """See ``Network``."""
        answers = [member(batch) for member in self.members]
        return {name: torch.stack([answer[name] for answer in answers]).mean(0) for name in answers[0]}

    def represent(self, batch: Batch) -> Representation:
        """See ``Network``: all members' channels side by side."""
        each = [member.represent(batch) for member in self._zoos()]
        tokens = torch.cat([representation.tokens for representation in each], -1)
        return Representation(tokens, each[0].mask, torch.cat([representation.pooled for representation in each], -1))

    def loss(self, batch: Batch) -> Tensor:
        """The mean of the members' own losses, so that none leans on another."""
        zoos = self._zoos()
        total = torch.stack([zoo.loss(batch) for zoo in zoos]).mean()
        names = sorted({name for zoo in zoos for name in zoo.terms})
        self.terms = {
            name: torch.stack([zoo.terms[name] for zoo in zoos if name in zoo.terms]).sum() / len(zoos)
            for name in names
        }
        return total

    def learning_rates(self) -> dict[str, float]:
        """See ``Network``."""
        return {
            f"members.{number}.{name}": factor
            for number, zoo in enumerate(self._zoos())
            for name, factor in zoo.learning_rates().items()
        }

    def observe(self) -> None:
        """See ``Network``."""
        for zoo in self._zoos():
            zoo.observe()

    def set_progress(self, share: float) -> None:
        """See ``Network``."""
        for zoo in self._zoos():
            zoo.set_progress(share)

    def _zoos(self) -> list[ModuleZoo]:
        return cast("list[ModuleZoo]", list(self.members))

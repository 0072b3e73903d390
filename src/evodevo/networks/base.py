"""What every network of separate samples has: named inputs, named answers, one loss."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor, nn

from evodevo.errors import UsageError
from evodevo.networks.outputs import answer_loss
from evodevo.tasks.base import OutputSpec
from evodevo.tasks.inputs import InputSpec

Batch = Mapping[str, Tensor]


@dataclass(frozen=True)
class Representation:
    """What a network made of a batch, before its heads.

    Attributes:
        tokens: (B, S, d).
        mask: (B, S), true at real positions; None where all are.
        pooled: (B, d), the mean over real positions.
    """

    tokens: Tensor
    mask: Tensor | None
    pooled: Tensor


class Network(nn.Module, ABC):
    """A network over the inputs and outputs of a task; batches are mappings as ``tasks.inputs.Batch``, on its device.

    Attributes:
        input_specs, output_specs: of the task.
        terms: name -> what it added to the last loss, weight included, without gradient ("task", "load", …); for logs.
    """

    terms: dict[str, Tensor]

    def __init__(self, inputs: tuple[InputSpec, ...], outputs: tuple[OutputSpec, ...]) -> None:
        super().__init__()
        self.input_specs = inputs
        self.output_specs = outputs
        self.terms = {}

    @abstractmethod
    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Output name -> logits: class and labels (B, size), tokens (B, L, size)."""

    @abstractmethod
    def represent(self, batch: Batch) -> Representation:
        """What stands before the heads of the outputs, their mean where there are several."""

    def loss(self, batch: Batch) -> Tensor:
        """Mean over outputs of their losses in nats, and what the network itself adds while it trains."""
        return self.answers_loss(self(batch), batch)

    def answers_loss(self, answers: Mapping[str, Tensor], batch: Batch) -> Tensor:
        """The task's part of the loss.

        Raises:
            UsageError: the batch has no target for an output.
        """
        losses = []
        for spec in self.output_specs:
            target = batch.get(f"{spec.name}/target")
            if target is None:
                raise UsageError(f"the batch has no target of the output {spec.name!r}; it has {sorted(batch)}.")
            losses.append(answer_loss(spec, answers[spec.name], target))
        total = losses[0]
        for other in losses[1:]:
            total = total + other
        return total / len(losses)

    def learning_rates(self) -> dict[str, float]:
        """Beginning of a parameter's name -> factor of its learning rate; 1 where nothing is said."""
        return {}

    def observe(self) -> None:
        """Called by the training loop after each step: statistics of the last loss may be updated here, only here."""

    def set_progress(self, share: float) -> None:
        """Told by the training loop before each step: the share of the budget that is used up."""

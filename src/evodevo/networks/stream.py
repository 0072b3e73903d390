"""Networks with one sequence of positions between their inputs and their outputs.

Legend: B samples, S positions, d width, O outputs.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping

import torch
from torch import Tensor

from evodevo.errors import UsageError
from evodevo.networks.base import Batch, Network, Representation
from evodevo.networks.inputs import Inputs, Messages
from evodevo.networks.outputs import Outputs
from evodevo.networks.routing.pools import masked_mean
from evodevo.tasks.base import OutputSpec


class SingleStream(Network):
    """The mean of the inputs at each position is one sequence, which ``update`` changes and every output reads.

    Attributes:
        inputs: Input layers.
        outputs: Output layers.
    """

    inputs: Inputs
    outputs: Outputs

    @abstractmethod
    def update(self, x: Tensor, mask: Tensor | None) -> tuple[Tensor, Mapping[str, Tensor]]:
        """(B, S, d) and its real positions (B, S) -> (B, S, d), and in training the network's own losses by name."""

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """See ``Network``."""
        return self._answered(batch)[0]

    def unrepresented(self) -> tuple[str, ...]:
        """See ``Network``."""
        return ("outputs",)

    def represent(self, batch: Batch) -> Representation:
        """See ``Network``."""
        y, mask = self.before_output(batch, 0)
        return Representation(y, mask, masked_mean(y, mask))

    def loss(self, batch: Batch) -> Tensor:
        """See ``Network``."""
        answers, extra = self._answered(batch)
        loss = self.answers_loss(answers, batch)
        self.terms = {}
        if extra:
            self.terms = {name: value.detach() for name, value in {"task": loss, **extra}.items()}
        for value in extra.values():
            loss = loss + value
        return loss

    def before_output(self, batch: Batch, number: int) -> tuple[Tensor, Tensor | None]:
        """(B, S, d) and its mask, which the output layer of any number reads."""
        messages = self.inputs(batch)
        x, mask = merged(messages)
        return _real(self.update(x, mask)[0], mask), mask

    def _answered(self, batch: Batch) -> tuple[dict[str, Tensor], Mapping[str, Tensor]]:
        messages = self.inputs(batch)
        x, mask = merged(messages)
        y, extra = self.update(x, mask)
        y, count = _real(y, mask), len(self.output_specs)
        ys = y.unsqueeze(1).expand(-1, count, -1, -1)
        masks = None if mask is None else mask.unsqueeze(1).expand(-1, count, -1)
        answers: dict[str, Tensor] = self.outputs(ys, masks, dict(messages.places))
        return answers, extra


def check_order(outputs: tuple[OutputSpec, ...], *, causal: bool) -> None:
    """Raise ``UsageError`` where tokens are to be predicted by a network that reads them."""
    if not causal and any(spec.kind == "tokens" for spec in outputs):
        raise UsageError(
            "predicting the next token needs a causal model: set causal = true, or it would read its answer."
        )


def merged(messages: Messages) -> tuple[Tensor, Tensor | None]:
    """The mean of all inputs at each position, (B, S, d), and the positions that some input has, (B, S)."""
    mask = None if messages.masks is None else messages.masks.any(1)
    x = messages.values.sum(1)
    if messages.masks is not None:
        x = x / messages.masks.sum(1).clamp(min=1).unsqueeze(-1).to(x.dtype)
    elif messages.values.shape[1] > 1:
        x = x / messages.values.shape[1]
    return x, mask


def _real(x: Tensor, mask: Tensor | None) -> Tensor:
    return x if mask is None else torch.where(mask.unsqueeze(-1), x, torch.zeros_like(x))

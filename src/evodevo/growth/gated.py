"""The loss of a zoo as a function of its weights and of one gate per module, for meta-gradients (98).

Legend: B samples, N modules.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.attention import SDPBackend, sdpa_kernel

from evodevo.growth.strategists.base import Loss, Unroll
from evodevo.module_zoo.model import ModuleZoo
from evodevo.networks.base import Batch

LEARNING = ("pool.", "router.")
"""Prefixes of the parameters that the inner steps change: modules and router."""
TINY = 1e-12


def unroll(zoo: ModuleZoo, inner: Batch, outer: Batch) -> Unroll:
    """Losses on two batches; ``.grad`` and the statistics of the zoo stay as they are.

    A gate scales the router's weight of its module, and weights are normalised again. Gates of unborn modules have no
    effect, since their weight is 0.

    Args:
        zoo: Zoo as it is now.
        inner: Batch of training samples, on the zoo's device.
        outer: Batch of the ``architecture`` split, on the zoo's device.
    """
    parameters = {
        name: parameter.detach()
        for name, parameter in zoo.named_parameters()
        if parameter.requires_grad and name.startswith(LEARNING)
    }
    return Unroll(parameters, _loss(zoo, inner), _loss(zoo, outer))


def _loss(zoo: ModuleZoo, batch: Batch) -> Loss:
    gated = _GatedZoo(zoo)

    def loss(parameters: dict[str, Tensor], gates: dict[str, Tensor]) -> Tensor:
        was_training = zoo.training
        zoo.eval()
        try:
            # Fused kernels of attention have no second derivative.
            with sdpa_kernel(SDPBackend.MATH):
                named = {f"zoo.{name}": parameter for name, parameter in parameters.items()}
                loss: Tensor = functional_call(gated, named, (batch, gates))
                return loss
        finally:
            zoo.train(was_training)

    return loss


class _GatedZoo(nn.Module):
    """The task's loss of a zoo with the router's weight of each module multiplied by its gate."""

    def __init__(self, zoo: ModuleZoo) -> None:
        super().__init__()
        self.zoo = zoo

    def forward(self, batch: Batch, gates: Mapping[str, Tensor]) -> Tensor:
        zoo = self.zoo
        inputs = zoo.fuse(batch)
        passage = zoo.consult(inputs)
        opened = torch.stack([gates[name] for name in passage.ids]).to(passage.outputs)
        weights = passage.decision.head_weights * opened
        weights = weights / weights.sum(-1, keepdim=True).clamp(min=TINY)
        mixed = zoo.router.mix(replace(passage.decision, head_weights=weights), passage.outputs, inputs.fused.vector)
        return zoo.answers_loss(zoo.answer(mixed), batch)

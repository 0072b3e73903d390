"""A zoo as a function of its weights and of how far each module stays: what meta-gradients differentiate (98).

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
"""Beginnings of the names of what the inner steps change: modules and router."""
TINY = 1e-12


def unroll(zoo: ModuleZoo, inner: Batch, outer: Batch) -> Unroll:
    """Losses on two batches; no ``.grad`` and no statistic of the zoo is touched.

    A gate scales the router's weight of its module, and weights are shared out anew. Gates of births have no effect:
    who is not born yet says nothing.

    Args:
        zoo: as it is now.
        inner: of training samples, on its device.
        outer: of the ``architecture`` split.
    """
    parameters = {
        name: one.detach() for name, one in zoo.named_parameters() if one.requires_grad and name.startswith(LEARNING)
    }
    return Unroll(parameters, _loss(zoo, inner), _loss(zoo, outer))


def _loss(zoo: ModuleZoo, batch: Batch) -> Loss:
    gated = _Gated(zoo)

    def loss(parameters: dict[str, Tensor], gates: dict[str, Tensor]) -> Tensor:
        was_training = zoo.training
        zoo.eval()
        try:
            # Fused kernels of attention have no second derivative.
            with sdpa_kernel(SDPBackend.MATH):
                named = {f"zoo.{name}": one for name, one in parameters.items()}
                found: Tensor = functional_call(gated, named, (batch, gates))
                return found
        finally:
            zoo.train(was_training)

    return loss


class _Gated(nn.Module):
    """The task's loss of a zoo whose modules are heard as far as their gates are open."""

    def __init__(self, zoo: ModuleZoo) -> None:
        super().__init__()
        self.zoo = zoo

    def forward(self, batch: Batch, gates: Mapping[str, Tensor]) -> Tensor:
        zoo = self.zoo
        heard = zoo.fuse(batch)
        passage = zoo.consult(heard)
        opened = torch.stack([gates[one] for one in passage.ids]).to(passage.outputs)
        weights = passage.decision.head_weights * opened
        weights = weights / weights.sum(-1, keepdim=True).clamp(min=TINY)
        mixed = zoo.router.mix(replace(passage.decision, head_weights=weights), passage.outputs, heard.fused.vector)
        return zoo.answers_loss(zoo.answer(mixed), batch)

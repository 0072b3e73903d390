"""The loss of an H-Model as a function of its weights and of one gate per layer, for meta-gradients (98)."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.attention import SDPBackend, sdpa_kernel

from evodevo.growth.h_model.probing import under
from evodevo.growth.strategists.base import Loss, Unroll
from evodevo.h_model.model import HModel
from evodevo.h_model.runners.loop import LoopRunner
from evodevo.networks.base import Batch

LEARNING = ("core.layers.", "core.routers.", "core.input_routers.", "core.router.")
"""Prefixes of the parameters that the inner steps change: layers and routers."""


def unroll(model: HModel, places: Mapping[str, int], inner: Batch, outer: Batch) -> Unroll:
    """Losses on two batches; no ``.grad`` of the model is touched.

    A gate multiplies the connections from its layer. Gates of unborn layers have no effect.

    Args:
        model: Model as it is now.
        places: Index of each live layer by id.
        inner: Batch of training samples, on the model's device.
        outer: Batch of the ``architecture`` split.
    """
    parameters = {
        name: parameter.detach()
        for name, parameter in model.named_parameters()
        if parameter.requires_grad and name.startswith(LEARNING)
    }
    return Unroll(parameters, _loss(model, places, inner), _loss(model, places, outer))


def _loss(model: HModel, places: Mapping[str, int], batch: Batch) -> Loss:
    gated = _GatedHModel(model, places)

    def loss(parameters: dict[str, Tensor], gates: dict[str, Tensor]) -> Tensor:
        was_training = model.training
        model.eval()
        try:
            # Fused kernels of attention have no second derivative; groups keep stacked copies of parameters.
            with sdpa_kernel(SDPBackend.MATH), under(model, runner=LoopRunner()):
                named = {f"model.{name}": parameter for name, parameter in parameters.items()}
                loss: Tensor = functional_call(gated, named, (batch, gates))
                return loss
        finally:
            model.train(was_training)

    return loss


class _GatedHModel(nn.Module):
    """The task's loss of an H-Model in which each layer has a gate."""

    def __init__(self, model: HModel, places: Mapping[str, int]) -> None:
        super().__init__()
        self.model = model
        self.places = places

    def forward(self, batch: Batch, gates: Mapping[str, Tensor]) -> Tensor:
        model = self.model
        some = next(model.parameters())
        opened = [torch.ones((), device=some.device, dtype=some.dtype)] * model.core.hidden_count
        for name, place in self.places.items():
            opened[place] = gates[name].to(some)
        with under(model, gates=torch.stack(opened)):
            loss: Tensor = model.answers_loss(model(batch), batch)
            return loss

"""Weights of the paths of a multipath model for each sample (µ4Net section 2.1), and the router's own learning rate.

Source: docs/spec/munet.md#multipath-model.

The learning rate is a factor of the router's gradients (eqs. 11, 12): under plain SGD, with or without momentum, that
is the same as another learning rate. A joint norm clip uses the scaled gradients. Optimisers that divide a gradient by
its size (Adam) undo it: they need a parameter group, for which models give ``learning_rates()`` (see
``training.optimizers``).

Legend: B samples, P paths with the main one first, C classes.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from evodevo.errors import UsageError
from evodevo.multitask.paths.multipath.decoupled import update_average
from evodevo.multitask.paths.multipath_spec import MultipathStructure, check_classes, router_bias
from evodevo.networks.routing.gates import widened

NORM_EPS = 1e-6


def zero_linear(inputs: int, outputs: int) -> nn.Linear:
    """A dense layer whose numbers are all 0."""
    # Made empty: PyTorch's own first values would be drawn for nothing, and move the caller's random stream.
    layer = nn.Linear(inputs, outputs, device="meta").to_empty(device="cpu")
    with torch.no_grad():
        layer.weight.zero_()
        layer.bias.zero_()
    return layer


class PathRouter(nn.Module):
    """w = softmax(K norm(r_main) + b) of the main path's logits; its gradients are scaled by λ.

    Everything begins at 0 but the main path's bias, so that each sample begins with the structure's ``first_weight``.

    Args:
        structure: structure of the multipath model.
        classes: C.
        paths: P, two or more.

    Attributes:
        rate: λ; 1 where an optimiser's parameter group does its work.
        average: moving average of the weights, (P,), begun at their first values; None but in the ``ema`` variant. A
            buffer, saved and begun anew with the router.

    Raises:
        UsageError: settings that cannot serve so many classes or paths.
    """

    average: Tensor | None

    def __init__(self, structure: MultipathStructure, classes: int, paths: int) -> None:
        super().__init__()
        check_classes(structure, classes)
        bias = router_bias(paths, structure.first_weight)
        self.rate = 1.0 if structure.rate_by == "group" else structure.rate
        self.decay = structure.ema_decay
        self.norm = nn.LayerNorm(classes, eps=NORM_EPS) if structure.router_norm == "layer" else None
        self.dense = zero_linear(classes, paths)
        if structure.router_start == "main":
            with torch.no_grad():
                self.dense.bias[0] = bias
        first = self.dense.bias.detach().softmax(0)
        self.register_buffer("average", first if structure.aggregation == "ema" else None)

    def forward(self, main: Tensor) -> Tensor:
        """Weights (B, P), in float32 at least, from the main path's logits (B, C)."""
        x = main.detach().to(self.dense.weight.dtype)
        if self.norm is not None:
            x = self.norm(x)
        return scale_gradient(widened(self.dense(x)).softmax(-1), self.rate)

    def observe(self, weights: Tensor) -> None:
        """Take a batch's weights (B, P) into the average, after they were used."""
        if self.average is not None:
            update_average(self.average, weights, self.decay)


class _Scaled(torch.autograd.Function):
    @staticmethod
    def forward(output: Tensor, factor: float) -> Tensor:
        return output.view_as(output)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, float], output: Tensor) -> None:
        ctx.factor = inputs[1]

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return gradients[0] * ctx.factor, None


def scale_gradient(output: Tensor, factor: float) -> Tensor:
    """The same numbers; backward their gradient times ``factor`` (equation 12, exact in any precision).

    Modules before this one in the network receive the scaled gradient, too.

    Raises:
        UsageError: a factor outside [0, 1].
    """
    if not 0 <= factor <= 1:
        raise UsageError(f"the factor of a module's gradients lies in [0, 1]; got {factor}.")
    if factor == 1 or not torch.is_grad_enabled():
        return output
    scaled: Tensor = _Scaled.apply(output, factor)  # type: ignore[no-untyped-call]
    return scaled

"""Weights of the paths of a multipath model for each sample (µ4Net section 2.1).

Source: docs/spec/munet.md#multipath-model.

Legend: B samples, P paths with the main one first, C classes.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from evodevo.multitask.paths.multipath.decoupled import update_average
from evodevo.multitask.paths.multipath_spec import MultipathStructure, check_classes, router_bias
from evodevo.networks.routing.gates import widened
from evodevo.networks.routing.gradient_scale import scale_gradient

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

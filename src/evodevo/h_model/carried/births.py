"""Birth factors of the layers of a carried stream: a factor beside each layer in the softmax that compares them.

With b = 0 the layer is none of those that are compared, exactly as if it were disabled; with b = 1 it is one like the
others. In between c_k = b_k exp(l_k) / sum of b_i exp(l_i), that is, log b is added to its logit.

Source: docs/spec/h_model.md#adding-and-removing-layers.

Legend: H hidden layers.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import torch
from torch import Tensor

from evodevo.h_model.births import Factor
from evodevo.networks.routing.gates import FAR

LARGEST = 80.0
"""Exponent at which the exponential is cut off, in float32 below its largest number. It is reached only where a layer
with a factor of next to nothing is preferred to all others by so many logits."""


def unborn(births: Mapping[int, Factor]) -> list[int]:
    """Layers that are not there at all. A tensor is not looked at, which would wait for its device."""
    return [place for place, factor in births.items() if not isinstance(factor, Tensor) and factor == 0]


def factors(births: Mapping[int, Factor], hidden: int, like: Tensor) -> Tensor | None:
    """Factor of each layer, (H,); None where none is half born."""
    half = {place: factor for place, factor in births.items() if isinstance(factor, Tensor) or 0 < factor < 1}
    if not half:
        return None
    one = like.new_ones(())
    return torch.stack([torch.as_tensor(half.get(place, one)).to(like) for place in range(hidden)])


def living(births: Mapping[int, Factor], hidden: int, disabled: Collection[int]) -> Tensor | float:
    """The number of layers, each counted as far as it is there."""
    missing = [1 - factor for place, factor in births.items() if place not in disabled]
    return hidden - len(disabled) - sum(missing)


def weighted_softmax(logits: Tensor, legal: Tensor, factor: Tensor) -> Tensor:
    """Shares (..., H) of logits (..., H), each with its factor (H,) in [0, 1]; 0 where it is not legal.

    A factor of 0 gives a share of 0 and a gradient to the factor; rows without a legal layer are 0.
    """
    here = legal & (factor > 0)
    with torch.no_grad():
        start = (logits + factor.clamp(min=torch.finfo(factor.dtype).tiny).log()).masked_fill(~here, FAR)
        start = start.amax(-1, keepdim=True)
    parts = (logits - start).clamp(max=LARGEST).exp() * factor * legal
    total = parts.sum(-1, keepdim=True)
    return parts / torch.where(total > 0, total, torch.ones_like(total))

"""Birth factors of hidden layers: newborns are added without effect at first, and probes leave layers out.

Connections among older layers are computed as if the newborns did not exist, and again with them; the birth factor b
mixes both. So b = 0 is exactly the model without the layer, whatever the gate (a softmax normalises, a sparse one
leaves out), b = 1 the one with it, and with b > 0 the layer has gradients.

Legend: B samples, H hidden layers, K sources, N = H + O targets; P is 1, or S positions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch
from torch import Tensor

Factor = float | Tensor
TINY = 1e-6


def stages(legal: Tensor, births: Mapping[int, Factor], *, of_input: bool) -> Iterator[tuple[Factor, Tensor]]:
    """Shares that sum to 1, each with the connections that exist in it; shares of exactly 0 are left out.

    With factors b1 >= b2 >= ... these are 1 - b1 without any newborn, b1 - b2 with the first one alone, and so on.

    Args:
        legal: Connections where all are born, (K, N).
        births: Factor in [0, 1] by index of the layer.
        of_input: Whether the sources are inputs; otherwise the hidden layers.
    """
    ordered = sorted(((place, factor) for place, factor in births.items()), key=lambda pair: -float(pair[1]))
    above: Factor = 1.0
    for number, (_, factor) in enumerate(ordered):
        share = above - factor
        if isinstance(share, Tensor) or share > 0:
            yield share, _without(legal, [place for place, _ in ordered[number:]], of_input)
        above = factor
    if isinstance(above, Tensor) or above > 0:
        yield above, legal


def _without(legal: Tensor, places: list[int], of_input: bool) -> Tensor:
    """The connections without those to and from these layers."""
    there = legal.clone()
    there[..., places] = False
    if not of_input:
        there[..., places, :] = False
    return there


def as_if_born(inflow: Tensor, births: Mapping[int, Factor]) -> Tensor:
    """Inflow (B, P, H) of each layer as it would be with b = 1: the inflow gate must not count the factor again."""
    if not births:
        return inflow
    factors = inflow.new_ones(inflow.shape[-1])
    for place, factor in births.items():
        factors[place] = max(float(factor), TINY)
    return inflow / factors


def levelled(weights: Tensor, legal: Tensor, hidden: int) -> Tensor:
    """Weights (B, P, K, N), those to hidden layers replaced by their mean over the legal ones."""
    may = legal[..., :hidden].expand_as(weights[..., :hidden])
    mean = weights[..., :hidden].sum(-1, keepdim=True) / may.sum(-1, keepdim=True).clamp(min=1)
    return torch.cat([mean * may, weights[..., hidden:]], -1)

"""Adapters of low rank beside the linear maps of a network: an opponent of new layers.

Source: Hu et al. 2021, "LoRA", section 4.1: W + B A, of which only A and B learn. B begins at 0: nothing changes at
first.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from evodevo.errors import UsageError

WEIGHT = "weight"
ENDS = ("inputs.", "outputs.")
"""Parts of a network without adapters, by the beginning of their names."""


class LowRank(nn.Module):
    """W (n, m) -> W + B A, with A (r, m) and B (n, r).

    Args:
        weight: W, for its shape, device and number format.
        rank: r, at least 1; min(n, m) where it is larger.
        generator: generator of A.
    """

    def __init__(self, weight: Tensor, rank: int, generator: torch.Generator) -> None:
        super().__init__()
        n, m = weight.shape
        r = min(rank, n, m)
        drawn = torch.randn(r, m, generator=generator) / m**0.5
        self.a = nn.Parameter(drawn.to(weight))
        self.b = nn.Parameter(weight.new_zeros(n, r))

    def forward(self, weight: Tensor) -> Tensor:
        """The map with its adapter."""
        return weight + self.b @ self.a


def adapt(network: nn.Module, rank: int, seed: int) -> list[str]:
    """Put an adapter beside every linear map between inputs and outputs, in place; the maps themselves are frozen.

    Args:
        network: network with parts ``inputs`` and ``outputs``; all the rest gets adapters, routers too.
        rank: rank of the adapters.
        seed: seed of their parameters.

    Returns:
        Names of the maps.

    Raises:
        UsageError: there is none.
    """
    generator = torch.Generator().manual_seed(seed)
    maps = {name: part for name, part in network.named_modules() if isinstance(part, nn.Linear)}
    chosen = {name: part for name, part in maps.items() if not name.startswith(ENDS)}
    if not chosen:
        raise UsageError("adapters are put beside linear maps, and the network has none between inputs and outputs.")
    for part in chosen.values():
        part.weight.requires_grad_(False)
        parametrize.register_parametrization(part, WEIGHT, LowRank(part.weight, rank, generator))
    return list(chosen)


def fold(network: nn.Module) -> None:
    """Add every adapter to its map, in place, and take it away; the network is of its own structure again."""
    for part in list(network.modules()):
        if parametrize.is_parametrized(part, WEIGHT):
            parametrize.remove_parametrizations(part, WEIGHT, leave_parametrized=True)

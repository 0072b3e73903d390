"""Initial connections of a newborn hidden layer: from which layers it receives, and to which it sends.

Legend: H hidden layers, N targets.
"""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor

from evodevo.h_model.core import HCore
from evodevo.h_model.router import Router


@torch.no_grad()
def address_alike(core: HCore, place: int, like: int | None) -> None:
    """Copy the connections to and from another layer to the newborn.

    Args:
        core: Core to which the layer was just added.
        place: Index of the newborn.
        like: Index of its parent. None: connections to it are as strong as those to the other layers on average, for
            every input, and its own router begins like that of a new model.
    """
    if core.structure.window is not None:
        return
    own = cast(Router, core.routers[place])
    if like is not None:
        _copy(own, cast(Router, core.routers[like]))
    else:
        _begin(own, core)
    for router in cast("list[Router]", [*core.input_routers, *core.routers]):
        for table in _tables(router):
            others = [
                layer for layer in range(core.hidden_count) if layer != place and layer not in core.structure.disabled
            ]
            if like is not None:
                table[place] = table[like]
            elif table.ndim == 1:
                table[place] = table[others].mean()
            else:
                table[place] = 0.0
    if core.aggregation is not None and like is not None:
        core.aggregation.query[place] = core.aggregation.query[like]
        core.aggregation.hidden_source[place] = core.aggregation.hidden_source[like]


def _tables(router: Router) -> list[Tensor]:
    """Parameters of a routing head by target, (N,) or (N, units)."""
    if router.outer is not None:
        return [router.outer.weight, router.outer.bias]
    return [] if router.logits is None else [router.logits]


def _copy(own: Router, parent: Router) -> None:
    """Copy the parent's router; a router of another kind keeps its start."""
    theirs = dict(parent.named_parameters())
    for name, parameter in own.named_parameters():
        if name in theirs and theirs[name].shape == parameter.shape:
            parameter.copy_(theirs[name])


def _begin(own: Router, core: HCore) -> None:
    """Set the starting biases of a model of this size; ``add_node`` had closed the routes."""
    with torch.random.fork_rng(devices=[]):
        fresh = core._router(len(core.routers) - 1, own.head)
    for table, new in zip(_tables(own), _tables(fresh), strict=True):
        table.copy_(new)

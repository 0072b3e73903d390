"""How newborn layers of an H-Model are addressed, and address others, before they have learned anything.

In the paper's stream connections to a newborn are as strong as those to its parent, or as those to the other layers on
average; its own are as strong as its parent's.

The softmax of a carried stream compares, and where few layers run the largest wins: of a copy the first one always, so
that the copy would never run; and what is addressed as the others are on average loses to the largest of them. So there
a newborn is addressed as its parent is, or as one of the others that is drawn, and its row gets the noise of a new
router besides: once it is born it takes a part of the samples of that layer.

Source: docs/spec/h_model.md#adding-and-removing-layers.

Legend: H hidden layers, N targets, d width.
"""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor

from evodevo.h_model.carried.core import CarriedCore
from evodevo.h_model.carried.retargeting import SharedRouterRows
from evodevo.h_model.carried.router import WEIGHT_STD
from evodevo.h_model.core import HCore
from evodevo.h_model.router import Router
from evodevo.randomness import draw_one, generator


def address_alike(core: HCore, place: int, like: int | None, seed: int) -> None:
    """Give the newborn the connections to and from another layer.

    Args:
        core: Core to which the layer was just added.
        place: Index of the newborn.
        like: Index of its parent; None where it has none among the layers.
        seed: Seed of what is drawn.
    """
    if isinstance(core, CarriedCore):
        _in_a_softmax(core, place, like, seed)
    elif core.structure.window is None:
        _by_each(core, place, like)


@torch.no_grad()
def _in_a_softmax(core: CarriedCore, place: int, like: int | None, seed: int) -> None:
    """The row of another layer, and noise."""
    router = core.router
    assert router is not None, "models with given routes do not grow"
    if like is None:
        others = [one for one in range(core.hidden_count) if one != place and one not in core.structure.disabled]
        like = draw_one(others, generator(seed, "like"))
    SharedRouterRows(core).take_after(place, [like])
    drawn = torch.Generator().manual_seed(seed)
    for one in router.maps():
        noise = torch.randn(one.in_features, generator=drawn, dtype=torch.float64) * WEIGHT_STD
        one.weight[place] += noise.to(one.weight)


@torch.no_grad()
def _by_each(core: HCore, place: int, like: int | None) -> None:
    """The connections of the parent; without one, those to the newborn are as strong as those to the other layers on
    average, for every input, and its own router begins like that of a new model."""
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
    if like is not None:
        for name in (*core.aggregation.by_target, *core.aggregation.by_source):
            rows = core.aggregation.get_parameter(name)
            rows[place] = rows[like]


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

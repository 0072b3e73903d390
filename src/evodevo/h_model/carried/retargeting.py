"""Rows of the shared router of a carried stream, which follow its hidden layers.

A softmax compares, so that a new row begins as the mean of the others, less a constant: the layer's share is at most
sigmoid(-SHUT - ln n) beside n others that a source may address, whatever the message (docs/spec/h_model.md).

Legend: I inputs, H hidden layers, O outputs, N = H + O targets.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor, nn

from evodevo.errors import UsageError
from evodevo.h_model.carried.core import CarriedCore
from evodevo.h_model.retargeting import Replaced, RouterRows, Rows
from evodevo.operators.layers.base import LayerSpec


class SharedRouterRows(RouterRows):
    """The one router of a carried stream; nothing where routes are given."""

    core: CarriedCore

    def check_room(self) -> None:
        """See ``RouterRows``: there always is."""

    def draw(self, place: int, layer: LayerSpec) -> None:
        """See ``RouterRows``: a new layer has none of its own."""

    def add(self, place: int, targets: Rows, sources: Rows, shut: float, grown: Replaced) -> None:
        """See ``RouterRows``."""
        self._retarget(targets, sources, grown)
        others = [other for other in range(len(sources)) if other not in (place, *self.core.structure.disabled)]
        self.take_after(place, others)
        if self.core.router is not None:
            with torch.no_grad():
                for one in self.core.router.maps():
                    one.bias[place] -= shut

    def remove(self, place: int, targets: Rows, sources: Rows, grown: Replaced) -> None:
        """See ``RouterRows``."""
        self._retarget(targets, sources, grown)

    @torch.no_grad()
    def take_after(self, place: int, others: Sequence[int]) -> None:
        """The layer is addressed as these others are on average, and addresses as they do."""
        router, chosen = self.core.router, list(others)
        if router is None:
            return
        for one in router.maps():
            one.weight[place] = one.weight[chosen].mean(0)
            one.bias[place] = one.bias[chosen].mean()
        for table in (router.source_bias, router.moment_bias):
            if table is not None:
                table[:, place] = table[:, chosen].mean(1)
        if router.source_bias is not None:
            first = self.core.input_count
            router.source_bias[first + place] = router.source_bias[[first + other for other in chosen]].mean(0)

    def open(self, places: Sequence[int]) -> None:
        """See ``RouterRows``."""
        raise UsageError("a carried stream has no hidden layers of an output's own.")

    def names(self, place: int | None) -> tuple[str, ...]:
        """See ``RouterRows``."""
        return ("core.router.",) if place is None else ()

    def check_frozen(self) -> None:
        """See ``RouterRows``."""
        core = self.core
        if core.router is not None and core.structure.carried.most < core.hidden_count:
            raise UsageError(
                "the layers of a carried stream share one router, and where few run a new one is not run before this "
                "has learned to name it; leave routers = true."
            )

    def _retarget(self, targets: Rows, sources: Rows, grown: Replaced) -> None:
        router = self.core.router
        if router is None:
            return
        for one in router.maps():
            one.weight = grown.take(cast(nn.Parameter, one.weight), targets, 0.0)
            one.bias = grown.take(one.bias, targets, 0.0)
            one.out_features = len(targets)
        if router.source_bias is not None:
            inputs = self.core.input_count
            rows = (*range(inputs), *(None if place is None else inputs + place for place in sources))
            router.source_bias = grown.take_table(router.source_bias, rows, targets)
        if router.moment_bias is not None:
            moments = tuple(range(len(cast(Tensor, router.moment_bias))))
            router.moment_bias = grown.take_table(router.moment_bias, moments, targets)

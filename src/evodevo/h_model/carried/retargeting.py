"""Rows of the shared router of a carried stream, which follow its hidden layers.

A softmax compares, so that a new row begins as the mean of the others, less a constant: the layer's share is at most
sigmoid(-SHUT - ln n) beside n others that a source may address, whatever the message (docs/spec/h_model.md). Rows of
layers that are an output's own are parameters of their own, so that nothing else moves where they alone learn.

Legend: I inputs, H hidden layers, O outputs, N = H + O targets.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor, nn

from evodevo.errors import UsageError
from evodevo.h_model.carried.core import CarriedCore
from evodevo.h_model.carried.router import Apart, RowsApart, Tables
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
        # Those that every pass has, so that the bound on its share holds in each.
        structure = self.core.structure
        never = (place, *structure.disabled, *structure.owned)
        self.take_after(place, [other for other in range(len(sources)) if other not in never])
        if self.core.router is not None:
            with torch.no_grad():
                for one in self.core.router.maps():
                    one.bias[self._row(place)] -= shut

    def remove(self, place: int, targets: Rows, sources: Rows, grown: Replaced) -> None:
        """See ``RouterRows``."""
        self._retarget(targets, sources, grown)

    @torch.no_grad()
    def take_after(self, place: int, others: Sequence[int]) -> None:
        """The layer is addressed as these others are on average, and addresses as they do; none is an output's own."""
        router, here, chosen = self.core.router, self._row(place), [self._row(other) for other in others]
        if router is None:
            return
        for one in router.maps():
            one.weight[here] = one.weight[chosen].mean(0)
            one.bias[here] = one.bias[chosen].mean()
        for table in (router.source_bias, router.moment_bias):
            if table is not None:
                table[:, here] = table[:, chosen].mean(1)
        if router.source_bias is not None:
            first = self.core.input_count
            router.source_bias[first + here] = router.source_bias[[first + other for other in chosen]].mean(0)
            for row in router.own_rows():
                to, of = cast(Tensor, row.to_targets), cast(Tensor, row.from_sources)
                to[here] = to[chosen].mean()
                of[first + place] = of[[first + other for other in others]].mean()

    def open(self, places: Sequence[int], grown: Replaced) -> None:
        """See ``RouterRows``; of a layer that was some output's own before, the connections stay."""
        router, core = self.core.router, self.core
        if router is None:
            return
        before = router.apart.layers
        fresh = [place for place in core.structure.owned if place not in before]
        tables = router.tables()
        rows = [self._begun(tables, place) for place in fresh]
        count = core.hidden_count
        self._retarget(tuple(range(count + core.output_count)), tuple(range(count)), grown)
        for place, row in zip(fresh, rows, strict=True):
            router.rows.insert(core.structure.owned.index(place), row)

    def names(self, place: int | None) -> tuple[str, ...]:
        """See ``RouterRows``."""
        if place is None:
            return ("core.router.",)
        own = () if self.core.router is None else self.core.router.apart.layers
        return (f"core.router.rows.{own.index(place)}.",) if place in own else ()

    def check_frozen(self, new: Sequence[int]) -> None:
        """See ``RouterRows``."""
        core = self.core
        if core.router is None or core.structure.carried.most >= core.hidden_count:
            return
        if not set(new) <= set(core.router.apart.layers):
            raise UsageError(
                "the layers of a carried stream share one router, and where few run a new one is not run before this "
                "has learned to name it; leave routers = true, or give the layers to an output."
            )

    def _row(self, target: int) -> int:
        """Row of a target among those that are nobody's own."""
        router = self.core.router
        return target if router is None else target - sum(place < target for place in router.apart.layers)

    def _retarget(self, targets: Rows, sources: Rows, grown: Replaced) -> None:
        """Rows after a change of the layers; the structure has it already."""
        router = self.core.router
        if router is None:
            return
        own, inputs = self.core.structure.owned, self.core.input_count
        kept = [place for place in router.apart.layers if place in sources and sources.index(place) in own]
        router.rows = nn.ModuleList(router.rows[router.apart.layers.index(place)] for place in kept)
        common = tuple(
            None if former is None else self._row(former) for place, former in enumerate(targets) if place not in own
        )
        hidden = tuple(
            None if former is None else inputs + self._row(former)
            for place, former in enumerate(sources)
            if place not in own
        )
        every = (*range(inputs), *(None if former is None else inputs + former for former in sources))
        for one in router.maps():
            one.weight = grown.take(cast(nn.Parameter, one.weight), common, 0.0)
            one.bias = grown.take(one.bias, common, 0.0)
            one.out_features = len(common)
        if router.source_bias is not None:
            router.source_bias = grown.take_table(router.source_bias, (*range(inputs), *hidden), common)
        if router.moment_bias is not None:
            moments = tuple(range(len(cast(Tensor, router.moment_bias))))
            router.moment_bias = grown.take_table(router.moment_bias, moments, common)
        for row in router.own_rows():
            if row.from_sources is not None:
                row.from_sources = grown.take(row.from_sources, every, 0.0)
            if row.to_targets is not None:
                row.to_targets = grown.take(row.to_targets, common, 0.0)
        router.apart = Apart(own, inputs)

    @torch.no_grad()
    def _begun(self, tables: Tables, place: int) -> RowsApart:
        """Rows of a layer to which no router has led: the mean of the n rows that every pass has, with ln n more in the
        bias, and the noise of a new router, a function of the place alone. Its share beside n rows that are alike is
        1/2."""
        core, structure = self.core, self.core.structure
        count, owned, first = core.hidden_count, structure.owned, core.input_count
        common = [target for target in range(count + core.output_count) if target not in owned]
        others = [other for other in common if other < count and other not in structure.disabled]
        sources = 0 if tables.by_source is None else len(tables.by_source)
        moments = 0 if tables.by_moment is None else len(tables.by_moment)
        maps = len(tables.weights) if structure.carried.iteration_router else 0
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(place)
            row = RowsApart(structure.width, maps, sources, len(common), moments).to(tables.weights[0])
        for one, weight, bias in zip(row.maps(), tables.weights, tables.biases, strict=True):
            one.weight.add_(weight[others].mean(0))
            one.bias.copy_(bias[others].mean() + structure.alpha * math.log(len(others)))
        if tables.by_source is not None:
            cast(Tensor, row.from_sources).copy_(tables.by_source[:, others].mean(1))
            cast(Tensor, row.to_targets).copy_(tables.by_source[[first + other for other in others]].mean(0)[common])
        if tables.by_moment is not None:
            cast(Tensor, row.at_moments).copy_(tables.by_moment[:, others].mean(1))
        return row

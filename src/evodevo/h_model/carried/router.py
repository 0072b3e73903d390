"""The shared router of a carried stream: a linear map from any source's normalised message to logits.

Source: docs/spec/h_model.md#the-carried-stream.

Legend: B samples, S positions, d width, K sources at hand, N targets; P is 1, or S where connections are decided at
each position.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from evodevo.networks.routing.pools import Pooling

WEIGHT_STD = 0.02
"""Spread of the first weights. With weights of 0 all samples would choose the same layer, the first."""
EPSILON = 1e-6


@dataclass(frozen=True)
class Apart:
    """Hidden layers whose rows of the router are parameters of their own, so that they can learn while the others are
    frozen.

    Attributes:
        layers: Their indices, ascending.
        inputs: Number of inputs, which come before the hidden layers where sources are counted.
    """

    layers: tuple[int, ...] = ()
    inputs: int = 0

    def weave(self, common: Tensor, own: Sequence[Tensor], begin: int = 0) -> Tensor:
        """The rows of all, in order.

        Args:
            common: Rows of the others, one behind the other.
            own: Row of each of the layers.
            begin: Number of rows that come before those of hidden layers.
        """
        parts, taken = [], 0
        for number, (place, row) in enumerate(zip(self.layers, own, strict=True)):
            before = begin + place - number
            parts += [common[taken:before], row.unsqueeze(0)]
            taken = before
        return torch.cat([*parts, common[taken:]])


class RowsApart(nn.Module):
    """Rows of the router for one hidden layer: as a target and, where sources have biases of their own, as a source.

    Args:
        width: Width d.
        maps: Number of maps; 0 for one for all moments.
        sources: Number of all sources, where they have biases of their own; else 0.
        targets: Number of targets without rows of their own.
        moments: Number of moments, where they have biases of their own; else 0.
    """

    def __init__(self, width: int, maps: int, sources: int, targets: int, moments: int) -> None:
        super().__init__()
        self.linear = _maps(width, 1, maps)
        self.from_sources = nn.Parameter(torch.zeros(sources)) if sources else None
        self.to_targets = nn.Parameter(torch.zeros(targets)) if sources else None
        self.at_moments = nn.Parameter(torch.zeros(moments)) if moments else None

    def maps(self) -> list[nn.Linear]:
        """The map of all moments, or that of each."""
        return _listed(self.linear)


class Tables(NamedTuple):
    """All rows of a router, whosever parameters they are.

    Attributes:
        weights: Of the map of all moments, or of each, (N, d).
        biases: Theirs, (N,).
        by_source: Biases of each source, (sources, N); None where there are none.
        by_moment: Biases of each moment, (moments, N); None where there are none.
    """

    weights: list[Tensor]
    biases: list[Tensor]
    by_source: Tensor | None
    by_moment: Tensor | None


class SharedRouter(nn.Module):
    """Messages -> logits of their connections, by the same weights for every source and iteration.

    Args:
        pool: The part of a message that is read.
        width: Width d.
        targets: Number of targets, N.
        sources: Number of all sources (inputs, then hidden layers) that have a bias of their own; 0 for none.
        moments: Number of moments (the input step, then the iterations) that have a bias of their own; 0 for none.
        own: Number of moments that have a map of their own; 0 for one map for all.
        apart: Hidden layers whose rows are parameters of their own.

    Attributes:
        linear: The map, or those of the moments; without the rows that are apart, as are the tables of biases.
        rows: The rows that are apart, by layer.
    """

    def __init__(
        self,
        pool: Pooling,
        width: int,
        targets: int,
        sources: int,
        moments: int,
        own: int = 0,
        apart: Apart = Apart(),
    ) -> None:
        super().__init__()
        self.pool, self.apart = pool, apart
        count = len(apart.layers)
        common = targets - count
        self.linear = _maps(width, common, own)
        self.source_bias = nn.Parameter(torch.zeros(sources - count, common)) if sources else None
        self.moment_bias = nn.Parameter(torch.zeros(moments, common)) if moments else None
        self.rows = nn.ModuleList(RowsApart(width, own, sources, common, moments) for _ in range(count))

    def maps(self) -> list[nn.Linear]:
        """The map of all moments, or that of each, without rows that are apart."""
        return _listed(self.linear)

    def all_maps(self) -> list[nn.Linear]:
        """The maps, and those of rows that are apart."""
        return [*self.maps(), *(one for row in self.own_rows() for one in row.maps())]

    def own_rows(self) -> list[RowsApart]:
        """The rows that are apart, by layer."""
        return cast("list[RowsApart]", list(self.rows))

    def tables(self) -> Tables:
        """All rows in the order of targets and sources."""
        maps = [self._whole_map(number) for number in range(len(self.maps()))]
        return Tables([weight for weight, _ in maps], [bias for _, bias in maps], self._by_source(), self._by_moment())

    def _whole_map(self, number: int) -> tuple[Tensor, Tensor]:
        """Weight (N, d) and bias (N,) of one map."""
        one, own = self.maps()[number], [row.maps()[number] for row in self.own_rows()]
        if not own:
            return one.weight, one.bias
        weave = self.apart.weave
        return weave(one.weight, [row.weight[0] for row in own]), weave(one.bias, [row.bias[0] for row in own])

    def _by_source(self) -> Tensor | None:
        """Biases (sources, N)."""
        table: Tensor | None = self.source_bias
        if table is None or not self.apart.layers:
            return table
        woven = self.apart.weave(table, [cast(Tensor, row.to_targets) for row in self.own_rows()], self.apart.inputs)
        return self.apart.weave(woven.T, [cast(Tensor, row.from_sources) for row in self.own_rows()]).T

    def _by_moment(self) -> Tensor | None:
        """Biases (moments, N)."""
        table: Tensor | None = self.moment_bias
        if table is None or not self.apart.layers:
            return table
        return self.apart.weave(table.T, [cast(Tensor, row.at_moments) for row in self.own_rows()]).T

    def whole_state(self) -> dict[str, Tensor]:
        """The state of an equal router of which no rows are apart."""
        tables = self.tables()
        state = {name: value for name, value in self.state_dict().items() if name.startswith("pool.")}
        for t in range(len(tables.weights)):
            name = "linear" if isinstance(self.linear, nn.Linear) else f"linear.{t}"
            state |= {f"{name}.weight": tables.weights[t], f"{name}.bias": tables.biases[t]}
        for name, table in (("source_bias", tables.by_source), ("moment_bias", tables.by_moment)):
            if table is not None:
                state[name] = table
        return {name: value.detach() for name, value in state.items()}

    def forward(self, messages: Tensor, masks: Tensor | None, sources: Tensor, moment: int) -> Tensor:
        """Logits, (B, P, K, N).

        Args:
            messages: (B, K, S, d).
            masks: Real positions of each, (B, K, S), or None.
            sources: Number of each source among all, (B, P, K) or (K,).
            moment: 0 for the input step, then 1 to T; beyond the trained T the last bias and map are used again.
        """
        scaled = messages * torch.rsqrt(messages.square().mean(-1, keepdim=True) + EPSILON)
        pooled: Tensor = self.pool(scaled.flatten(0, 1), None if masks is None else masks.flatten(0, 1))
        # (B K, P, d) -> (B, P, K, d)
        rows = pooled.view(*messages.shape[:2], *pooled.shape[1:]).transpose(1, 2)
        logits = F.linear(rows, *self._whole_map(min(moment, len(self.maps()) - 1)))
        by_source, by_moment = self._by_source(), self._by_moment()
        if by_source is not None:
            logits = logits + by_source[sources]
        if by_moment is not None:
            logits = logits + by_moment[min(moment, len(by_moment) - 1)]
        return logits


def _maps(width: int, targets: int, count: int) -> nn.Linear | nn.ModuleList:
    return nn.ModuleList(_map(width, targets) for _ in range(count)) if count else _map(width, targets)


def _listed(maps: nn.Linear | nn.ModuleList) -> list[nn.Linear]:
    return [maps] if isinstance(maps, nn.Linear) else cast("list[nn.Linear]", list(maps))


def _map(width: int, targets: int) -> nn.Linear:
    linear = nn.Linear(width, targets)
    nn.init.normal_(linear.weight, std=WEIGHT_STD)
    nn.init.zeros_(linear.bias)
    return linear

"""Runner that computes hidden layers of equal shape in one batched call, and the others in a loop.

Source: docs/spec/h_model.md#grouped-execution.
"""

from __future__ import annotations

import operator
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from evodevo.h_model.runners.loop import (
    Active,
    LayerRunner,
    PassCache,
    Rows,
    States,
    all_run,
    rows_of,
    size_of,
    written,
)
from evodevo.operators.grouped import Grouped, Signature, group, signature


@dataclass(frozen=True)
class StackedLayers(PassCache):
    """The layers of a model in groups, for one pass.

    Attributes:
        groups: Indices of the layers, ascending, and the operator that runs them at once.
        singles: Indices of the layers that equal no other.
    """

    groups: tuple[tuple[tuple[int, ...], Grouped], ...]
    singles: tuple[int, ...]


class GroupingRule(Protocol):
    """Decides whether groups are used."""

    def __call__(self, runner: GroupedRunner, layers: nn.ModuleList, x: Tensor) -> bool:
        """Return whether to group these layers for inputs x, (B, H, S, d)."""


class GroupedRunner(LayerRunner):
    """Runs equal layers at once and the others one after the other, among them nested and recurrent layers.

    While gradients are wanted the live parameters are stacked, once per pass. Without gradients the stacked tensors
    are kept until a parameter changes: its version, its memory or its place among the layers. Writing through ``.data``
    changes no version; write under ``torch.no_grad`` instead, as optimisers and ``load_state_dict`` do.

    Args:
        choice: Called once per pass; where it returns False, everything is run in a loop.
    """

    def __init__(self, choice: GroupingRule) -> None:
        super().__init__()
        self.choice = choice
        self._roster: _LayerGroups | None = None
        self._kept: tuple[_WeightVersions, StackedLayers] | None = None

    def __deepcopy__(self, memo: dict[int, Any]) -> GroupedRunner:
        # Stacked tensors belong to the layers of the model that is copied.
        return GroupedRunner(self.choice)

    def prepare(self, layers: nn.ModuleList, x: Tensor) -> StackedLayers | None:
        """See ``LayerRunner``: the groups, where there are any and the choice selects them; none in a graph."""
        if torch.compiler.is_compiling():  # its tensors have no memory whose address could be watched
            return None
        if self._roster is None or not self._roster.holds(layers):
            self._roster, self._kept = _LayerGroups(layers), None
        if not self._roster.together or not self.choice(self, layers, x):
            return None
        return self.team(layers)

    @property
    def kinds(self) -> tuple[Signature | None, ...]:
        """Signatures of the layers at the last call of ``prepare``."""
        assert self._roster is not None
        return self._roster.kinds

    def team(self, layers: nn.ModuleList) -> StackedLayers:
        """The groups of the layers at the last call of ``prepare``."""
        assert self._roster is not None
        if torch.is_grad_enabled():
            # With gradients, stacked tensors belong to the graph of one pass.
            self._kept = None
            return _team(layers, self._roster)
        if self._kept is None or not self._kept[0].holds():
            self._kept = (_WeightVersions(layers), _team(layers, self._roster))
        return self._kept[1]

    def run(
        self,
        layers: nn.ModuleList,
        x: Tensor,
        masks: Tensor | None,
        active: Active | None,
        states: States | None,
        cache: PassCache | None = None,
    ) -> Tensor:
        """See ``LayerRunner``."""
        if not isinstance(cache, StackedLayers) or states is not None:
            return self.one_by_one(layers, x, masks, active, states)
        if active is None:
            return self._all_of(layers, x, masks, cache)
        rows = rows_of(active)
        if all_run(rows):
            return self._all_of(layers, x, masks, cache)
        return self._addressed(layers, x, masks, rows, cache)

    def _all_of(self, layers: nn.ModuleList, x: Tensor, masks: Tensor | None, team: StackedLayers) -> Tensor:
        for place in range(len(layers)):
            self.count(place, len(layers), x.shape[0])
        inputs = x.transpose(0, 1)
        present = None if masks is None else masks.transpose(0, 1)
        if len(team.groups) == 1 and not team.singles:
            return team.groups[0][1](inputs, present).transpose(0, 1)
        outputs: list[Tensor | None] = [None] * len(layers)
        for places, grouped in team.groups:
            chosen = torch.tensor(places, device=x.device)
            stacked = grouped(inputs[chosen], None if present is None else present[chosen])
            for place, output in zip(places, stacked.unbind(0), strict=True):
                outputs[place] = output
        for place in team.singles:
            outputs[place] = layers[place](inputs[place], mask=None if present is None else present[place]).y
        return torch.stack([output for output in outputs if output is not None]).transpose(0, 1)

    def _addressed(
        self, layers: nn.ModuleList, x: Tensor, masks: Tensor | None, rows: list[Rows | None], team: StackedLayers
    ) -> Tensor:
        """Run the layers of a group that equally many samples need in one call; always so for a single sample.

        Padding the others to the longest would run more samples than needed.
        """
        output: Tensor | None = None
        singles = list(team.singles)
        for places, grouped in team.groups:
            wanted = [number for number, place in enumerate(places) if rows[place] is not None]
            active = [places[number] for number in wanted]
            here = _as_many([rows[place] for place in active])
            if len(active) < 2 or here is None:
                singles += active
                continue
            there = torch.tensor(active, device=x.device)
            part = grouped if len(wanted) == len(places) else grouped.pick(torch.tensor(wanted, device=x.device))
            if isinstance(here, Tensor):
                there = there.unsqueeze(1)
                mask = None if masks is None else masks[here, there]
                output = written(output, x, here, there, part(x[here, there], mask))
            else:
                mask = None if masks is None else masks[:, there].transpose(0, 1)
                output = written(output, x, here, there, part(x[:, there].transpose(0, 1), mask).transpose(0, 1))
            for place in active:
                self.count(place, len(layers), here.shape[1] if isinstance(here, Tensor) else x.shape[0])
        for place in singles:
            own = rows[place]
            if own is not None:
                mask = None if masks is None else masks[own, place]
                output = written(output, x, own, place, layers[place](x[own, place], mask=mask).y)
                self.count(place, len(layers), size_of(own, x))
        return torch.zeros_like(x) if output is None else output


def _as_many(rows: Sequence[Rows | None]) -> Rows | None:
    """(G, n) if n samples need each of the layers, a slice if all do; None if the numbers differ."""
    some = [here for here in rows if isinstance(here, Tensor)]
    if not some:
        return slice(None)
    alike = len(some) == len(rows) and len({len(here) for here in some}) == 1
    return torch.stack(some) if alike else None


def partition(kinds: Sequence[Signature | None]) -> tuple[list[tuple[int, ...]], tuple[int, ...]]:
    """Indices of equal layers, two or more each, and indices of the others."""
    groups: dict[Signature, list[int]] = {}
    for place, kind in enumerate(kinds):
        if kind is not None:
            groups.setdefault(kind, []).append(place)
    together = [tuple(places) for places in groups.values() if len(places) > 1]
    grouped = {place for places in together for place in places}
    return together, tuple(place for place in range(len(kinds)) if place not in grouped)


def _team(layers: nn.ModuleList, roster: _LayerGroups) -> StackedLayers:
    groups = tuple((places, group([layers[place] for place in places], torch.stack)) for places in roster.together)
    return StackedLayers(groups, roster.alone)


class _LayerGroups:
    """Groups of equal layers; cached, since comparing them costs as much as running a small layer.

    Attributes:
        kinds: Signature of each layer; None where it cannot be grouped.
        together: Indices of equal layers, two or more each.
        alone: Indices of the others.
    """

    def __init__(self, layers: nn.ModuleList) -> None:
        self.kinds = tuple(signature(layer) for layer in layers)
        self.together, self.alone = partition(self.kinds)
        self._layers = tuple(layers)
        self._seen = [
            (module, module.training, _hooked(module), tuple(module._modules.values()))
            for layer in layers
            for module in layer.modules()
        ]

    def holds(self, layers: nn.ModuleList) -> bool:
        """Whether these are still the same layers of the same parts in the same mode."""
        return _same(list(layers), self._layers) and all(
            module.training is training and _hooked(module) is hooked and _same(module._modules.values(), parts)
            for module, training, hooked, parts in self._seen
        )


class _WeightVersions:
    """Versions and addresses of some layers' parameters."""

    def __init__(self, layers: nn.ModuleList) -> None:
        # A detached view keeps the memory from being reused.
        self._seen = [
            (module._parameters, name, tensor, tensor._version, tensor.data_ptr(), tensor.detach())
            for layer in layers
            for module in layer.modules()
            for name, tensor in module._parameters.items()
            if tensor is not None
        ]

    def holds(self) -> bool:
        """Whether none of them was written to, moved or replaced."""
        return all(
            holder.get(name) is tensor and tensor._version == version and tensor.data_ptr() == address
            for holder, name, tensor, version, address, _ in self._seen
        )


def _hooked(module: nn.Module) -> bool:
    return bool(module._forward_hooks or module._forward_pre_hooks)


def _same(first: Collection[object], other: Collection[object]) -> bool:
    """Whether these are the same objects in the same order."""
    return len(first) == len(other) and all(map(operator.is_, first, other))

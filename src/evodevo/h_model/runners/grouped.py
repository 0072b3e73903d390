"""Hidden layers of equal shape run as one batched call, the others in a loop.

Source: docs/spec/h_model.md#grouped-execution.
"""

from __future__ import annotations

import operator
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from evodevo.h_model.runners.grouped_layers import Grouped, Signature, group, signature
from evodevo.h_model.runners.loop import Crew, Rows, Runner, States, everybody, rows_of, size_of, written


@dataclass(frozen=True)
class Team(Crew):
    """The layers of a model in groups, for one pass.

    Attributes:
        groups: places of the layers, ascending, and what runs them at once.
        singles: places of the layers that are like no other.
    """

    groups: tuple[tuple[tuple[int, ...], Grouped], ...]
    singles: tuple[int, ...]


class Choice(Protocol):
    """Says whether groups are worth it."""

    def __call__(self, runner: GroupedRunner, layers: nn.ModuleList, x: Tensor) -> bool:
        """For these layers and what they hear, (B, H, S, d)."""


class GroupedRunner(Runner):
    """Equal layers at once, the others one after the other; nested layers and recurrent ones are among these.

    While gradients are wanted the live parameters are stacked, once per pass. Without gradients the stacked tensors
    are kept until a parameter changes: its version, its memory or its place among the layers. Writing through ``.data``
    changes no version; write under ``torch.no_grad`` instead, as optimisers and ``load_state_dict`` do.

    Args:
        choice: asked once per pass; where it says no, everything is run in a loop.
    """

    def __init__(self, choice: Choice) -> None:
        super().__init__()
        self.choice = choice
        self._roster: _Roster | None = None
        self._kept: tuple[_Contents, Team] | None = None

    def __deepcopy__(self, memo: dict[int, Any]) -> GroupedRunner:
        # Stacked tensors belong to the layers of the model that is copied.
        return GroupedRunner(self.choice)

    def crew(self, layers: nn.ModuleList, x: Tensor) -> Team | None:
        """See ``Runner``: the groups, where there are any and the choice falls on them."""
        if self._roster is None or not self._roster.holds(layers):
            self._roster, self._kept = _Roster(layers), None
        if not self._roster.together or not self.choice(self, layers, x):
            return None
        return self.team(layers)

    @property
    def kinds(self) -> tuple[Signature | None, ...]:
        """What the layers are that ``crew`` has seen last."""
        assert self._roster is not None
        return self._roster.kinds

    def team(self, layers: nn.ModuleList) -> Team:
        """The groups of the layers that ``crew`` has seen last."""
        assert self._roster is not None
        if torch.is_grad_enabled():
            self._kept = None
            return _team(layers, self._roster)
        if self._kept is None or not self._kept[0].holds():
            self._kept = (_Contents(layers), _team(layers, self._roster))
        return self._kept[1]

    def run(
        self,
        layers: nn.ModuleList,
        x: Tensor,
        masks: Tensor | None,
        active: Tensor | None,
        states: States | None,
        crew: Crew | None = None,
    ) -> Tensor:
        """See ``Runner``."""
        if not isinstance(crew, Team) or states is not None:
            return self.one_by_one(layers, x, masks, active, states)
        if active is None:
            return self._all_of(layers, x, masks, crew)
        rows = rows_of(active)
        if everybody(rows):
            return self._all_of(layers, x, masks, crew)
        return self._addressed(layers, x, masks, rows, crew)

    def _all_of(self, layers: nn.ModuleList, x: Tensor, masks: Tensor | None, team: Team) -> Tensor:
        for place in range(len(layers)):
            self.count(place, len(layers), len(x))
        heard = x.transpose(0, 1)
        present = None if masks is None else masks.transpose(0, 1)
        if len(team.groups) == 1 and not team.singles:
            return team.groups[0][1](heard, present).transpose(0, 1)
        said: list[Tensor | None] = [None] * len(layers)
        for places, grouped in team.groups:
            chosen = torch.tensor(places, device=x.device)
            spoken = grouped(heard[chosen], None if present is None else present[chosen])
            for place, one in zip(places, spoken.unbind(0), strict=True):
                said[place] = one
        for place in team.singles:
            said[place] = layers[place](heard[place], mask=None if present is None else present[place]).y
        return torch.stack([one for one in said if one is not None]).transpose(0, 1)

    def _addressed(
        self, layers: nn.ModuleList, x: Tensor, masks: Tensor | None, rows: list[Rows | None], team: Team
    ) -> Tensor:
        """Layers of a group that are wanted by equally many samples go together; always so for a single sample.

        Filling up the others to the longest would run more than was addressed.
        """
        said: Tensor | None = None
        lonely = list(team.singles)
        for places, grouped in team.groups:
            wanted = [number for number, place in enumerate(places) if rows[place] is not None]
            who = [places[number] for number in wanted]
            here = _as_many([rows[place] for place in who])
            if len(who) < 2 or here is None:
                lonely += who
                continue
            there = torch.tensor(who, device=x.device)
            part = grouped if len(wanted) == len(places) else grouped.pick(torch.tensor(wanted, device=x.device))
            if isinstance(here, Tensor):
                there = there.unsqueeze(1)
                mask = None if masks is None else masks[here, there]
                said = written(said, x, here, there, part(x[here, there], mask))
            else:
                mask = None if masks is None else masks[:, there].transpose(0, 1)
                said = written(said, x, here, there, part(x[:, there].transpose(0, 1), mask).transpose(0, 1))
            for place in who:
                self.count(place, len(layers), here.shape[1] if isinstance(here, Tensor) else len(x))
        for place in lonely:
            own = rows[place]
            if own is not None:
                mask = None if masks is None else masks[own, place]
                said = written(said, x, own, place, layers[place](x[own, place], mask=mask).y)
                self.count(place, len(layers), size_of(own, x))
        return torch.zeros_like(x) if said is None else said


def _as_many(rows: Sequence[Rows | None]) -> Rows | None:
    """(G, n) if n samples want each of the layers, a slice if all do; None if some are wanted by more than others."""
    some = [here for here in rows if isinstance(here, Tensor)]
    if not some:
        return slice(None)
    alike = len(some) == len(rows) and len({len(here) for here in some}) == 1
    return torch.stack(some) if alike else None


def partition(kinds: Sequence[Signature | None]) -> tuple[list[tuple[int, ...]], tuple[int, ...]]:
    """Places of equal layers, two or more each, and places of the others."""
    found: dict[Signature, list[int]] = {}
    for place, kind in enumerate(kinds):
        if kind is not None:
            found.setdefault(kind, []).append(place)
    together = [tuple(places) for places in found.values() if len(places) > 1]
    grouped = {place for places in together for place in places}
    return together, tuple(place for place in range(len(kinds)) if place not in grouped)


def _team(layers: nn.ModuleList, roster: _Roster) -> Team:
    groups = tuple((places, group([layers[place] for place in places], torch.stack)) for places in roster.together)
    return Team(groups, roster.alone)


class _Roster:
    """Which layers are equal; remembered, since finding out costs as much as running a small layer.

    Attributes:
        kinds: signature of each layer.
        together: places of equal layers, two or more each.
        alone: places of the others.
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


class _Contents:
    """What the parameters of some layers were."""

    def __init__(self, layers: nn.ModuleList) -> None:
        # A detached view keeps the memory from being given to somebody else.
        self._seen = [
            (module._parameters, name, tensor, tensor._version, tensor.data_ptr(), tensor.detach())
            for layer in layers
            for module in layer.modules()
            for name, tensor in module._parameters.items()
            if tensor is not None
        ]

    def holds(self) -> bool:
        """Whether nobody has written to them, moved them or put others in their place."""
        return all(
            holder.get(name) is tensor and tensor._version == version and tensor.data_ptr() == address
            for holder, name, tensor, version, address, _ in self._seen
        )


def _hooked(module: nn.Module) -> bool:
    return bool(module._forward_hooks or module._forward_pre_hooks)


def _same(one: Collection[object], other: Collection[object]) -> bool:
    """Whether these are the same objects in the same order."""
    return len(one) == len(other) and all(map(operator.is_, one, other))

"""Rows of routers, which follow the hidden layers where these come and go (``extension.py``).

Legend: H hidden layers, O outputs, N = H + O targets of a router, d width.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import cast

import torch
from torch import nn

from evodevo.errors import UsageError
from evodevo.h_model.core import HCore
from evodevo.h_model.router import Router
from evodevo.operators.layers.base import LayerSpec
from evodevo.training.surgery import Origin

Rows = tuple[int | None, ...]
"""Former row of each row; None for a new one."""


class Replaced:
    """Parameters that were replaced by others of another height or width."""

    def __init__(self) -> None:
        self._before: dict[int, tuple[nn.Parameter, Origin]] = {}

    def take(self, before: nn.Parameter, rows: Rows, fill: float) -> nn.Parameter:
        """The parameter with these rows, ``fill`` in new ones."""
        return self._taken(before, Origin("", rows), fill)

    def take_table(self, before: nn.Parameter, rows: Rows, columns: Rows) -> nn.Parameter:
        """The matrix with these rows and columns, 0 in new ones."""
        return self._taken(before, Origin("", axes=(rows, columns)), 0.0)

    def _taken(self, before: nn.Parameter, origin: Origin, fill: float) -> nn.Parameter:
        after = nn.Parameter(origin.carry(before, fill), requires_grad=before.requires_grad)
        self._before[id(after)] = (before, origin)
        return after

    def origins(self, before: dict[str, nn.Parameter], model: nn.Module) -> dict[str, Origin]:
        """Origins of all parameters that are not new."""
        names = {id(parameter): name for name, parameter in before.items()}
        origins = {}
        for name, parameter in model.named_parameters():
            if id(parameter) in names:
                origins[name] = Origin(names[id(parameter)])
            elif id(parameter) in self._before:
                old, origin = self._before[id(parameter)]
                origins[name] = replace(origin, name=names[id(old)])
        return origins


class RouterRows(ABC):
    """The routers of a core whose layers come and go.

    Args:
        core: The core.
    """

    def __init__(self, core: HCore) -> None:
        self.core = core

    @abstractmethod
    def check_room(self) -> None:
        """Raise ``UsageError`` where there is no room for another target."""

    @abstractmethod
    def draw(self, place: int, layer: LayerSpec) -> None:
        """Draw what a new layer's router begins with, if it has one of its own; the structure has the layer already."""

    @abstractmethod
    def add(self, place: int, targets: Rows, sources: Rows, shut: float, grown: Replaced) -> None:
        """A layer more.

        Args:
            place: Its place.
            targets: Former number of each target, (N,).
            sources: Former number of each hidden layer, (H,).
            shut: By how much its logits lie below those of others at first.
            grown: Takes what is replaced.
        """

    @abstractmethod
    def remove(self, place: int, targets: Rows, sources: Rows, grown: Replaced) -> None:
        """A layer less; arguments as for ``add``."""

    @abstractmethod
    def open(self, places: Sequence[int], grown: Replaced) -> None:
        """Connections to these layers, an output's own now, begin anew; the structure has them already."""

    @abstractmethod
    def names(self, place: int | None) -> tuple[str, ...]:
        """Prefixes of the parameters of a layer's own router; of all routers where ``place`` is None."""

    @abstractmethod
    def check_frozen(self, new: Sequence[int]) -> None:
        """Raise ``UsageError`` where new layers cannot learn while the routers of others are frozen."""


class EachRouterRows(RouterRows):
    """The paper's: every source has a router of its own."""

    def check_room(self) -> None:
        """See ``RouterRows``."""
        core = self.core
        for router in cast("list[Router]", list(core.routers)):
            if router.channels is not None and len(router.channels) >= core.structure.width:
                raise UsageError(
                    f"a channel router of width {core.structure.width} has no channel left for another layer; "
                    "take routers with the head linear or feedforward."
                )

    def draw(self, place: int, layer: LayerSpec) -> None:
        """See ``RouterRows``."""
        some = next(self.core.parameters())
        self._drawn = self.core._router(place, layer.router).to(some.device, some.dtype)

    def add(self, place: int, targets: Rows, sources: Rows, shut: float, grown: Replaced) -> None:
        """See ``RouterRows``."""
        self._begin_shut(place, shut)
        self._retarget_all(targets, -shut, grown)
        self.core.routers.insert(place, self._drawn.train(self.core.training))

    def remove(self, place: int, targets: Rows, sources: Rows, grown: Replaced) -> None:
        """See ``RouterRows``."""
        del self.core.routers[place]
        self._retarget_all(targets, 0.0, grown)

    def open(self, places: Sequence[int], grown: Replaced) -> None:
        """See ``RouterRows``: with a logit of 0, but that of each to itself."""
        routers = cast("list[Router]", [*self.core.routers, *self.core.input_routers])
        for number, router in enumerate(routers):
            for biases in (router.logits, None if router.outer is None else router.outer.bias):
                if isinstance(biases, nn.Parameter):
                    with torch.no_grad():
                        biases[[place for place in places if place != number]] = 0.0

    def check_frozen(self, new: Sequence[int]) -> None:
        """See ``RouterRows``: a new layer's own router learns."""

    def names(self, place: int | None) -> tuple[str, ...]:
        """See ``RouterRows``."""
        return ("core.routers.", "core.input_routers.") if place is None else (f"core.routers.{place}.",)

    def _begin_shut(self, place: int, shut: float) -> None:
        """Shut the new layer's router. It does not address itself; without the inflow gate it addresses no layer, or
        else it would send messages without being addressed."""
        structure, router = self.core.structure, self._drawn
        biases = router.logits if router.outer is None else router.outer.bias
        if biases is None or (structure.window is not None and structure.inflow_gate):
            return
        with torch.no_grad():
            if structure.inflow_gate:
                biases[place] = -shut
            else:
                biases.fill_(-shut)

    def _retarget_all(self, targets: Rows, bias: float, grown: Replaced) -> None:
        routers = list(self.core.input_routers)
        if self.core.structure.window is None:
            # Heads of windowed models give logits of offsets, however many layers there are.
            routers += list(self.core.routers)
        for router in cast("list[Router]", routers):
            _retarget(router, targets, bias, grown)


def _retarget(router: Router, targets: Rows, bias: float, grown: Replaced) -> None:
    """Rows of a routing head: old ones by number, new ones with weights of 0 and this bias."""
    if router.outer is not None:
        router.outer.weight = grown.take(cast(nn.Parameter, router.outer.weight), targets, 0.0)
        router.outer.bias = grown.take(router.outer.bias, targets, bias)
        router.outer.out_features = len(targets)
    if router.channels is not None:
        known = router.channels.tolist()
        free = min(set(range(len(known) + 1)) - set(known))
        chosen = [free if target is None else known[target] for target in targets]
        router.channels = torch.tensor(chosen, device=router.channels.device)
    if isinstance(router.logits, nn.Parameter):
        router.logits = grown.take(router.logits, targets, bias)

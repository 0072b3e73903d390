"""Frozen paths joined by trained connectors and a router for each sample (µ4Net section 2.1).

Source: docs/spec/munet.md#multipath-model.

Legend: B samples, P paths with the main one, C classes, h_k width of support k, counted from 1.

The main path answers the task and is always run; r_0 are its logits. Support k represents a sample as x_k, and its
connector maps that to r_k = W_k x_k + d_k. The answer is sum_p w_p r_p; the weights learn as in
``multitask.paths.multipath.decoupled``. Untrained it is w* r_0: other numbers than the main path's, the same order of
classes.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from typing import cast

import torch
from torch import Tensor, nn

from evodevo.errors import UsageError, unknown_name
from evodevo.multitask.paths.dense import DenseInput
from evodevo.multitask.paths.frozen import FrozenPath, Inputs, Routed
from evodevo.multitask.paths.multipath.decoupled import aggregated
from evodevo.multitask.paths.multipath.router import PathRouter, zero_linear
from evodevo.multitask.paths.multipath_spec import (
    MAIN,
    ROUTER,
    MultipathStructure,
    connector,
    inherited,
    multipath_shapes,
    support,
)


class Multipath(nn.Module):
    """A multipath model.

    Args:
        main: the task's own path, with its head; a module that answers logits (B, C).
        supports: headless paths, each answers (B, h_k). A plain module reads the batch as it is; see ``FrozenPath``.
        classes: C.
        widths: h_k of each support.
        structure: joining of the paths.
        components: trained parts by role; what is missing has its first values, which are drawn from nothing.

    Raises:
        UsageError: settings, components or numbers of paths that do not go together.
    """

    def __init__(
        self,
        main: nn.Module,
        supports: Sequence[nn.Module],
        classes: int,
        widths: Sequence[int],
        structure: MultipathStructure | None = None,
        *,
        components: Mapping[str, nn.Module] | None = None,
    ) -> None:
        super().__init__()
        if len(supports) != len(widths):
            raise UsageError(f"{len(supports)} supports need as many widths; got {len(widths)}.")
        self.structure = structure or MultipathStructure()
        self.classes = classes
        self.widths = tuple(widths)
        self.paths = nn.ModuleDict({MAIN: FrozenPath.of(main)})
        self.paths.update({support(number): FrozenPath.of(path) for number, path in enumerate(supports, start=1)})
        self.shapes = multipath_shapes(self.structure, classes, widths)
        given = dict(components or {})
        for role in self.shapes:
            part = given.pop(role, None) or build_component(self.structure, role, classes, widths)
            if {name: tuple(value.shape) for name, value in part.state_dict().items()} != {**self.shapes[role]}:
                raise UsageError(f"the component {role!r} has other shapes than this multipath model needs.")
            self.add_module(role, part)
        if given:
            raise unknown_name("component of this multipath model", next(iter(given)), self.shapes)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the representations: ``main``, ``support_1``, …"""
        return tuple(self.paths)

    def components(self) -> dict[str, nn.Module]:
        """Role -> module of everything that is trained and saved."""
        return {role: self.get_submodule(role) for role in self.shapes}

    def learning_rates(self) -> dict[str, float]:
        """Beginning of a parameter's name -> factor of its learning rate, where ``rate_by`` is ``group``."""
        grouped = self.structure.rate_by == "group" and ROUTER in self.shapes
        return {ROUTER: self.structure.rate} if grouped else {}

    def learn(self, roles: Iterable[str]) -> list[nn.Parameter]:
        """Let these components learn and no others; returns their parameters.

        Raises:
            UsageError: a role that the model does not have.
        """
        chosen = set(roles)
        if unknown := sorted(chosen - self.shapes.keys()):
            raise unknown_name("component of this multipath model", unknown[0], self.shapes)
        parts = self.components()
        for role, part in parts.items():
            part.requires_grad_(role in chosen)
        return [parameter for role in parts if role in chosen for parameter in parts[role].parameters()]

    def inherit(self, parent: Multipath, replaced: Sequence[int] = ()) -> dict[str, bool]:
        """Copy what a parent has learned (see ``multitask.paths.multipath_spec.inherited``); role -> whether it was.

        Args:
            parent: not changed.
            replaced: numbers of supports that are other paths than the parent's.
        """
        kept = inherited(parent.shapes, self.shapes, replaced)
        for role, module in self.components().items():
            if kept[role]:
                module.load_state_dict(copy.deepcopy(parent.get_submodule(role).state_dict()))
        return kept

    def forward(self, inputs: Inputs) -> Tensor:
        """Logits (B, C); see ``route``."""
        return self.route(inputs).logits

    def route(self, inputs: Inputs) -> Routed:
        """The answer, and which paths it took.

        While it answers (``eval``), a support is run only for the samples that give it at least ``skip_below``; its
        part is 0 for the others, and weights stay as they are. While it learns, everything runs; by ``main_dropout``
        some answers are then of the supports alone.

        Args:
            inputs: a tensor that all paths read, {size or name: tensor}, or what ``represent_paths`` gave (from a
                cache): then no path is run.
        """
        known = _represented(inputs, self.names)
        main = known[MAIN] if known else self._path(MAIN)(inputs)
        everyone = torch.ones(main.shape[0], len(self.paths), dtype=torch.bool, device=main.device)
        if len(self.paths) == 1:
            return Routed(main, torch.ones_like(everyone, dtype=main.dtype), everyone, self.structure.has_router)
        weights = self._weights(main)
        bar = 0.0 if self.training else self.structure.skip_below
        ran = torch.cat([everyone[:, :1], weights[:, 1:] >= bar], 1) if bar else everyone
        parts = [main.to(self._connector(1).weight.dtype)]
        wanted = ran.T.cpu() if bar else None  # the one wait for the device
        for number in range(1, len(self.paths)):
            places = None if wanted is None else wanted[number].nonzero().flatten().to(main.device)
            parts.append(self._part(number, inputs, known, places, parts[0]))
        average = self._router.average if ROUTER in self.shapes else None
        used = weights
        if self.training and self.structure.main_dropout:
            kept = torch.rand(len(main), 1, device=main.device) >= self.structure.main_dropout
            parts[0] = parts[0] * kept
            # A router that learned from answers without the main path would give it up.
            used = torch.where(kept, weights, weights.detach())
        logits = aggregated(torch.stack(parts, 1), used, self.structure.aggregation, average)
        if self.training and torch.is_grad_enabled() and ROUTER in self.shapes:
            self._router.observe(weights)
        return Routed(logits, weights, ran, self.structure.has_router)

    def skip_below(self, weight: float) -> None:
        """Run a support only for samples that give it this weight at least, or the structure's; 0 runs all."""
        if self.structure.has_router:
            bar = max(weight, self.structure.skip_below) if weight else 0.0
            self.structure = self.structure.model_copy(update={"skip_below": bar})

    def dense_inputs(self) -> dict[str, DenseInput]:
        """Entry of a batch -> what it is made of, and which paths read it.

        Raises:
            UsageError: a path inside is not exported.
        """
        entries = {}
        for part in map(self._path, self.names):
            inputs = getattr(part.module, "dense_inputs", None)
            if inputs is None:
                raise UsageError(
                    f"this multipath model reads a {type(part.module).__name__}, which is not exported; exported are"
                    " models all of whose paths read an image, a text or a row of numbers."
                )
            (entries[str(part.reads)],) = inputs().values()
        return entries

    def represent_path(self, name: str, inputs: Inputs) -> Tensor:
        """Representation of a batch by one path of ``names``: logits of the main one (B, C), else (B, h_k)."""
        if name not in self.paths:
            raise unknown_name("path of this multipath model", name, self.names)
        value: Tensor = self._path(name)(inputs)
        return value

    def represent_paths(self, inputs: Inputs) -> dict[str, Tensor]:
        """Representations of a batch by all paths; a pure function of the samples, so it may be kept."""
        return {name: self.represent_path(name, inputs) for name in self.names}

    @property
    def _router(self) -> PathRouter:
        return cast(PathRouter, self.get_submodule(ROUTER))

    def _path(self, name: str) -> FrozenPath:
        return cast(FrozenPath, self.paths[name])

    def _connector(self, number: int) -> nn.Linear:
        return cast(nn.Linear, self.get_submodule(connector(number)))

    def _weights(self, main: Tensor) -> Tensor:
        if ROUTER not in self.shapes:
            return torch.ones(main.shape[0], len(self.paths), dtype=main.dtype, device=main.device)
        weights: Tensor = self._router(main)
        return weights

    def _part(
        self, number: int, inputs: Inputs, known: Mapping[str, Tensor], places: Tensor | None, like: Tensor
    ) -> Tensor:
        """r_k (B, C), 0 at samples that are left out."""
        joint = self._connector(number)
        if places is not None and not len(places):
            return torch.zeros_like(like)
        if known:
            x = known[support(number)] if places is None else known[support(number)].index_select(0, places)
        else:
            x = self._path(support(number))(inputs, places)
        part: Tensor = joint(x.to(joint.weight.dtype)).to(like.dtype)  # autocast may have narrowed it
        return part if places is None else torch.zeros_like(like).index_copy(0, places, part)


def build_component(structure: MultipathStructure, role: str, classes: int, widths: Sequence[int]) -> nn.Module:
    """A component with its first values: connectors are 0, the router prefers the main path.

    Raises:
        UsageError: a role that such a model does not have.
    """
    shapes = multipath_shapes(structure, classes, widths)
    if role not in shapes:
        raise unknown_name("component of this multipath model", role, shapes)
    if role == ROUTER:
        return PathRouter(structure, classes, len(widths) + 1)
    return zero_linear(shapes[role]["weight"][1], classes)


def _represented(inputs: Inputs, names: Sequence[str]) -> dict[str, Tensor]:
    """Representations by name where the inputs are some, else nothing."""
    if isinstance(inputs, Tensor) or MAIN not in set(inputs):
        return {}
    by_name = {str(name): value for name, value in inputs.items()}
    missing = [name for name in names if name not in by_name]
    if missing:
        raise UsageError(f"representations of all paths are needed; there is none of {', '.join(missing)}.")
    return by_name

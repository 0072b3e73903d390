"""Hidden layers that are added and removed after training, while the other parameters are kept.

Source: docs/spec/h_model.md#adding-and-removing-layers.

A new layer is in ``disabled`` at first: it is not called and its messages are not read, so that no answer changes.
Enabled, it begins softly: every router addresses it with the bias -SHUT (a shared one as the others on average, less
SHUT), and its messages count only as far as it is addressed.

Legend: H hidden layers, O outputs, N = H + O targets of a router, d width.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from evodevo.errors import UsageError
from evodevo.h_model.aggregations.module import Aggregation
from evodevo.h_model.carried.retargeting import SharedRouterRows
from evodevo.h_model.core import HCore
from evodevo.h_model.parts import HModelParts
from evodevo.h_model.retargeting import EachRouterRows, Replaced, RouterRows
from evodevo.h_model.spec import CarriedStructure, HModelStructure, OwnLayers
from evodevo.networks.base import Batch
from evodevo.networks.routing.spec import InferenceStructure
from evodevo.operators.layers.base import Layer
from evodevo.operators.layers.build import build_layer
from evodevo.settings import validate
from evodevo.training.surgery import Origin

SHUT = 4.0
"""Routers address a new layer with sigmoid(-4) = 0.018 once it is enabled; a softmax over n more with less."""
SOURCE_STD = 0.02
_ROUTERS: Mapping[str, type[RouterRows]] = {"paper": EachRouterRows, "carried": SharedRouterRows}


@dataclass(frozen=True)
class Change:
    """The result of a change of the layers.

    Attributes:
        place: index of the layer that was added or removed.
        origins: for ``training.surgery``: name -> origin of the parameter; new ones have no entry.
    """

    place: int
    origins: dict[str, Origin]


def add_node(
    model: HModelParts, layer: Layer, *, at: int | Literal["edge"] = "edge", enabled: bool = False, seed: int = 0
) -> Change:
    """Add a hidden layer, in place. Its parameters are a function of the seed alone.

    Args:
        model: trained or not.
        layer: the layer to add.
        at: its place among the hidden layers; ``edge`` is the last.
        enabled: false changes no answer; true makes its messages count at once, with small weights.
        seed: seed of the new parameters.

    Raises:
        UsageError: no such place, a place inside a windowed model, or a layer that does not fit; the model is then as
            it was.
    """
    core, before = model.core, _parameters(model)
    structure, count = model.structure, model.core.hidden_count
    place = count if at == "edge" else at
    if not 0 <= place <= count:
        raise UsageError(f"a layer cannot be added at {place}; places are 0 to {count}, or 'edge'.")
    if structure.window is not None and place != count:
        raise UsageError("in a windowed model layers are added at the edge, or the neighbours of others would change.")

    def moved(other: int) -> int:
        return other + (other >= place)

    shifted = tuple(moved(other) for other in structure.disabled)
    changed = _checked(
        structure,
        hidden=(*structure.hidden[:place], layer, *structure.hidden[place:]),
        disabled=shifted if enabled else tuple(sorted((*shifted, place))),
        own=_moved(structure, moved),
        carried=_rerouted(structure.carried, moved),
    )
    routers = _routers_of(core)
    routers.check_room()
    some = next(core.parameters())
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        built = build_layer(layer, structure.width, causal=structure.causal).to(some.device, some.dtype)
        source = torch.randn(structure.width) * SOURCE_STD
        model.structure = core.structure = changed
        routers.draw(place, layer)
    targets = (*range(place), None, *range(place, count + core.output_count))
    sources = (*range(place), None, *range(place, count))
    grown = Replaced()
    routers.add(place, targets, sources, SHUT * structure.alpha, grown)
    core.layers.insert(place, built.train(model.training))
    _regroup(core.aggregation, targets, sources, grown)
    core.aggregation.begin(place, source.to(some.device, some.dtype))
    model.move_routes(moved)
    _refresh(core)
    return Change(place, grown.origins(before, model))


def remove_node(model: HModelParts, place: int) -> Change:
    """Take a hidden layer out, in place. Distil afterwards (``growth.training.distillation``) where answers matter.

    Raises:
        UsageError: no such layer, or the last one that is enabled; the model is then as it was.
    """
    core, before, structure = model.core, _parameters(model), model.structure
    count = core.hidden_count
    _check_place(core, place)
    left = [other for other in range(count) if other != place]
    disabled = tuple(other - (other > place) for other in structure.disabled if other != place)
    if len(left) == len(disabled):
        raise UsageError("the last hidden layer stays; set iterations = 0 for a model without any.")

    def moved(other: int) -> int | None:
        return None if other == place else other - (other > place)

    model.check_routes(moved)
    changed = _checked(
        structure,
        hidden=tuple(structure.hidden[other] for other in left),
        disabled=disabled,
        own=_moved(structure, moved),
        inference=_fitting(structure.inference, len(left), core.output_count),
        carried=_rerouted(structure.carried.fitting(len(left)), moved),
    )
    model.structure = core.structure = changed
    core.inference = _fitting(core.inference, len(left), core.output_count)
    del core.layers[place]
    targets = (*left, *range(count, count + core.output_count))
    grown = Replaced()
    _routers_of(core).remove(place, targets, tuple(left), grown)
    _regroup(core.aggregation, targets, tuple(left), grown)
    model.move_routes(moved)
    _refresh(core)
    return Change(place, grown.origins(before, model))


def enable(model: HModelParts, place: int) -> None:
    """Enable a layer: it is called, and its messages count."""
    _check_place(model.core, place)
    _set_disabled(model, set(model.structure.disabled) - {place})


def disable(model: HModelParts, place: int) -> None:
    """Silence a layer; its parameters stay.

    Raises:
        UsageError: no such layer, or the last one that is enabled.
    """
    _check_place(model.core, place)
    _set_disabled(model, set(model.structure.disabled) | {place})


def give(model: HModelParts, output: str, places: Sequence[int]) -> dict[str, Origin]:
    """Make hidden layers an output's own: from now on they take part in its answers alone.

    The answers of all other outputs are then those of the model without them. Connections to these layers begin anew,
    with weight 1/2 where routers are as ``add_node`` makes them: there is no old answer to be kept. In a carried stream
    their rows of the shared router become parameters of their own, which can learn while the others are frozen
    (``freeze_old``). They begin anew, each with a share of 1/2 beside others that are alike; rows of layers that were
    an output's own before stay.

    Returns:
        Origins of the parameters, for ``training.surgery``.

    Raises:
        UsageError: no such output or layer, or a model that has no such layers (``HModelStructure.own``); the model is
            then as it was.
    """
    if output not in (names := [spec.name for spec in model.output_specs]):
        raise UsageError(f"the model has no output {output!r}; it has {', '.join(names)}.")
    structure, parameters = model.structure, _parameters(model)
    before = next((entry.layers for entry in structure.own if entry.output == output), ())
    others = tuple(entry for entry in structure.own if entry.output != output)
    entry = OwnLayers(output=output, layers=tuple(sorted({*before, *places})))
    changed = _checked(structure, own=(*others, entry))
    model.check_routes(lambda place: place, changed)
    model.structure = model.core.structure = changed
    grown = Replaced()
    _routers_of(model.core).open(places, grown)
    _refresh(model.core)
    return grown.origins(parameters, model)


def freeze_old(
    model: HModelParts, new: Iterable[int], *, routers: bool = True, outputs: Sequence[str] = ()
) -> tuple[str, ...]:
    """Let only these layers learn, their routers, and what is named here; everything else is frozen.

    Args:
        model: after ``add_node``.
        new: places of hidden layers that learn.
        routers: all routers learn, and what aggregates messages; else only those of the new layers (of a carried
            stream, whose layers share one, the rows of layers that are an output's own).
        outputs: output layers that learn, by name.

    Returns:
        Names of the parameters that learn.

    Raises:
        UsageError: no such layer or output, or a shared router that is frozen though it alone leads to the new layers:
            where few layers run, these would never learn.
    """
    names = [spec.name for spec in model.output_specs]
    for name in outputs:
        if name not in names:
            raise UsageError(f"the model has no output {name!r}; it has {', '.join(names)}.")
    parts = [f"outputs.layers.{name}." for name in outputs]
    rows = _routers_of(model.core)
    places = list(new)
    for place in places:
        _check_place(model.core, place)
        parts += [f"core.layers.{place}.", *rows.names(place)]
    if routers:
        parts += [*rows.names(None), "core.aggregation."]
    else:
        rows.check_frozen(places)
    learning = []
    for name, parameter in model.named_parameters():
        # What was frozen before (a pretrained layer) stays so.
        parameter.requires_grad_(parameter.requires_grad and name.startswith(tuple(parts)))
        if parameter.requires_grad:
            learning.append(name)
    return tuple(learning)


@dataclass(frozen=True)
class Usage:
    """The use of hidden layers, each (H,), means over samples and iterations.

    Attributes:
        inflow: their inflow, at most 1.
        calls: share of samples for which they are run.
        outflow: sum of the weights of their connections to others.
    """

    inflow: NDArray[np.float64]
    calls: NDArray[np.float64]
    outflow: NDArray[np.float64]

    def least(self) -> int:
        """The layer with the smallest sum of connections to others."""
        return int(self.outflow.argmin())


def usage(model: HModelParts, batches: Iterable[Batch]) -> Usage:
    """Watch a model in evaluation mode.

    Raises:
        UsageError: no batch, or a model without iterations.
    """
    hidden = model.core.hidden_count
    inflow, calls, outflow, passes = (np.zeros(hidden), np.zeros(hidden), np.zeros(hidden), 0)
    for batch in batches:
        trace = model.trace(batch)
        # The inflow before an iteration is that of the layer's work in it.
        inflow += np.minimum(trace.inflow[:, :-1, :hidden], 1.0).sum((0, 1))
        calls += trace.called.sum((0, 1))
        outflow += trace.connections.sum((0, 1, 3))
        passes += trace.count * trace.iterations
    if passes == 0:
        raise UsageError("usage is measured on at least one sample, in a model with at least one iteration.")
    return Usage(inflow / passes, calls / passes, outflow / passes)


def _regroup(
    aggregation: Aggregation, targets: tuple[int | None, ...], sources: tuple[int | None, ...], grown: Replaced
) -> None:
    """Rows of an aggregation by target and by hidden layer: old ones by number, new ones of 0."""
    for names, rows in ((aggregation.by_target, targets), (aggregation.by_source, sources)):
        for name in names:
            setattr(aggregation, name, grown.take(aggregation.get_parameter(name), rows, 0.0))


def _check_place(core: HCore, place: int) -> None:
    if not 0 <= place < core.hidden_count:
        raise UsageError(f"there is no hidden layer {place}; places are 0 to {core.hidden_count - 1}.")


def _moved(structure: HModelStructure, new: Callable[[int], int | None]) -> tuple[OwnLayers, ...]:
    """Layers of outputs' own after a change of places; None is no layer any more."""
    moved = (
        (entry.output, tuple(place for other in entry.layers if (place := new(other)) is not None))
        for entry in structure.own
    )
    return tuple(OwnLayers(output=output, layers=layers) for output, layers in moved if layers)


def _checked(structure: HModelStructure, **changes: Any) -> HModelStructure:
    """The structure with changes, looked at as if it came from a file."""
    values = structure.model_copy(update=changes).model_dump(mode="json")
    return validate(HModelStructure, values, what="the changed H-Model")


def _fitting(inference: InferenceStructure, hidden: int, outputs: int) -> InferenceStructure:
    """The mode's numbers, no larger than a smaller model allows."""
    k = min(inference.k, hidden + outputs if inference.outputs_count else hidden + 1)
    return inference.model_copy(update={"m": min(inference.m, hidden), "k": k})


def _rerouted(carried: CarriedStructure, new: Callable[[int], int | None]) -> CarriedStructure:
    """Given routes after a change of places."""
    routes = carried.routes
    return carried if routes is None else carried.model_copy(update={"routes": routes.moved(new)})


def _routers_of(core: HCore) -> RouterRows:
    return _ROUTERS[core.structure.stream](core)


def _set_disabled(model: HModelParts, places: set[int]) -> None:
    changed = _checked(model.structure, disabled=tuple(sorted(places)))
    model.check_routes(lambda place: place, changed)
    model.structure = model.core.structure = changed
    _refresh(model.core)


def _refresh(core: HCore) -> None:
    """Recompute the tables that follow from the structure."""
    device = next(core.parameters()).device
    core._legal_tables()
    core.legal_hidden = cast(Tensor, core.legal_hidden).to(device)
    core.legal_input = cast(Tensor, core.legal_input).to(device)
    core.runner.reset()


def _parameters(model: nn.Module) -> dict[str, nn.Parameter]:
    return dict(model.named_parameters())

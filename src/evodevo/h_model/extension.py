"""Hidden layers that are added and removed after training, while the other parameters are kept.

Source: docs/spec/h_model.md#adding-and-removing-layers.

A new layer is in ``disabled`` at first: it is not called and its messages are not read, so that no answer changes.
Enabled, it begins softly: every router addresses it with the bias -SHUT, and its messages count only as far as it is
addressed.

Legend: H hidden layers, O outputs, N = H + O targets of a router, d width.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from evodevo.errors import UsageError
from evodevo.h_model.aggregations.module import Aggregation
from evodevo.h_model.core import HCore
from evodevo.h_model.parts import HModelParts
from evodevo.h_model.router import Router
from evodevo.h_model.spec import HModelStructure, OwnLayers
from evodevo.networks.base import Batch
from evodevo.networks.routing.spec import InferenceStructure
from evodevo.operators.layers.base import Layer
from evodevo.operators.layers.build import build_layer
from evodevo.settings import validate
from evodevo.training.surgery import Origin

SHUT = 4.0
"""Routers address a new layer with sigmoid(-4) = 0.018 once it is enabled."""
SOURCE_STD = 0.02


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
    model.core.check_growth()
    core, before = model.core, _parameters(model)
    structure, count = model.structure, model.core.hidden_count
    place = count if at == "edge" else at
    if not 0 <= place <= count:
        raise UsageError(f"a layer cannot be added at {place}; places are 0 to {count}, or 'edge'.")
    if structure.window is not None and place != count:
        raise UsageError("in a windowed model layers are added at the edge, or the neighbours of others would change.")
    shifted = tuple(other + (other >= place) for other in structure.disabled)
    changed = _checked(
        structure,
        hidden=(*structure.hidden[:place], layer, *structure.hidden[place:]),
        disabled=shifted if enabled else tuple(sorted((*shifted, place))),
        own=_moved(structure, lambda other: other + (other >= place)),
    )
    _check_channels(core)
    some = next(core.parameters())
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        built = build_layer(layer, structure.width, causal=structure.causal).to(some.device, some.dtype)
        source = torch.randn(structure.width) * SOURCE_STD
        model.structure = core.structure = changed
        router = core._router(place, layer.router).to(some.device, some.dtype)
    shut = SHUT * structure.alpha
    _begin_shut(router, place, structure, shut)
    targets = (*range(place), None, *range(place, count + core.output_count))
    grown = _Grown()
    _retarget_all(core, targets, -shut, grown)
    core.layers.insert(place, built.train(model.training))
    core.routers.insert(place, router.train(model.training))
    _regroup(core.aggregation, targets, (*range(place), None, *range(place, count)), grown)
    core.aggregation.begin(place, source.to(some.device, some.dtype))
    _refresh(core)
    return Change(place, grown.origins(before, model))


def remove_node(model: HModelParts, place: int) -> Change:
    """Take a hidden layer out, in place. Distil afterwards (``growth.training.distillation``) where answers matter.

    Raises:
        UsageError: no such layer, or the last one that is enabled; the model is then as it was.
    """
    model.core.check_growth()
    core, before, structure = model.core, _parameters(model), model.structure
    count = core.hidden_count
    _check_place(core, place)
    left = [other for other in range(count) if other != place]
    disabled = tuple(other - (other > place) for other in structure.disabled if other != place)
    if len(left) == len(disabled):
        raise UsageError("the last hidden layer stays; set iterations = 0 for a model without any.")
    changed = _checked(
        structure,
        hidden=tuple(structure.hidden[other] for other in left),
        disabled=disabled,
        own=_moved(structure, lambda other: None if other == place else other - (other > place)),
        inference=_fitting(structure.inference, len(left), core.output_count),
    )
    model.structure = core.structure = changed
    core.inference = _fitting(core.inference, len(left), core.output_count)
    del core.layers[place]
    del core.routers[place]
    targets = (*left, *range(count, count + core.output_count))
    grown = _Grown()
    _retarget_all(core, targets, 0.0, grown)
    _regroup(core.aggregation, targets, tuple(left), grown)
    _refresh(core)
    return Change(place, grown.origins(before, model))


def enable(model: HModelParts, place: int) -> None:
    """Enable a layer: it is called, and its messages count."""
    model.core.check_growth()
    _check_place(model.core, place)
    _set_disabled(model, set(model.structure.disabled) - {place})


def disable(model: HModelParts, place: int) -> None:
    """Silence a layer; its parameters stay.

    Raises:
        UsageError: no such layer, or the last one that is enabled.
    """
    model.core.check_growth()
    _check_place(model.core, place)
    _set_disabled(model, set(model.structure.disabled) | {place})


def give(model: HModelParts, output: str, places: Sequence[int]) -> None:
    """Make hidden layers an output's own: from now on they take part in its answers alone.

    The answers of all other outputs are then those of the model without them. Connections to these layers begin anew,
    with weight 1/2 where routers are as ``add_node`` makes them: there is no old answer to be kept.

    Raises:
        UsageError: no such output or layer, or a model that has no such layers (``HModelStructure.own``); the model is
            then as it was.
    """
    model.core.check_growth()
    if output not in (names := [spec.name for spec in model.output_specs]):
        raise UsageError(f"the model has no output {output!r}; it has {', '.join(names)}.")
    structure = model.structure
    before = next((entry.layers for entry in structure.own if entry.output == output), ())
    others = tuple(entry for entry in structure.own if entry.output != output)
    entry = OwnLayers(output=output, layers=tuple(sorted({*before, *places})))
    model.structure = model.core.structure = _checked(structure, own=(*others, entry))
    _open(model.core, places)
    _refresh(model.core)


def freeze_old(
    model: HModelParts, new: Iterable[int], *, routers: bool = True, outputs: Sequence[str] = ()
) -> tuple[str, ...]:
    """Let only these layers learn, their routers, and what is named here; everything else is frozen.

    Args:
        model: after ``add_node``.
        new: places of hidden layers that learn.
        routers: all routers learn, and what aggregates messages; else only those of the new layers.
        outputs: output layers that learn, by name.

    Returns:
        Names of the parameters that learn.

    Raises:
        UsageError: no such layer or output.
    """
    model.core.check_growth()
    names = [spec.name for spec in model.output_specs]
    for name in outputs:
        if name not in names:
            raise UsageError(f"the model has no output {name!r}; it has {', '.join(names)}.")
    parts = [f"outputs.layers.{name}." for name in outputs]
    for place in new:
        _check_place(model.core, place)
        parts += [f"core.layers.{place}.", f"core.routers.{place}."]
    if routers:
        parts += ["core.routers.", "core.input_routers.", "core.aggregation."]
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


class _Grown:
    """Parameters that were replaced by others of another height."""

    def __init__(self) -> None:
        self._before: dict[int, tuple[nn.Parameter, tuple[int | None, ...]]] = {}

    def take(self, before: nn.Parameter, rows: tuple[int | None, ...], fill: float) -> nn.Parameter:
        """The parameter with these rows, ``fill`` in new ones."""
        after = nn.Parameter(Origin("", rows).carry(before, fill), requires_grad=before.requires_grad)
        self._before[id(after)] = (before, rows)
        return after

    def origins(self, before: dict[str, nn.Parameter], model: nn.Module) -> dict[str, Origin]:
        """Origins of all parameters that are not new."""
        names = {id(parameter): name for name, parameter in before.items()}
        origins = {}
        for name, parameter in model.named_parameters():
            if id(parameter) in names:
                origins[name] = Origin(names[id(parameter)])
            elif id(parameter) in self._before:
                old, rows = self._before[id(parameter)]
                origins[name] = Origin(names[id(old)], rows)
        return origins


def _regroup(
    aggregation: Aggregation, targets: tuple[int | None, ...], sources: tuple[int | None, ...], grown: _Grown
) -> None:
    """Rows of an aggregation by target and by hidden layer: old ones by number, new ones of 0."""
    for names, rows in ((aggregation.by_target, targets), (aggregation.by_source, sources)):
        for name in names:
            setattr(aggregation, name, grown.take(aggregation.get_parameter(name), rows, 0.0))


def _retarget_all(core: HCore, targets: tuple[int | None, ...], bias: float, grown: _Grown) -> None:
    routers = list(core.input_routers)
    if core.structure.window is None:
        # Heads of windowed models give logits of offsets, however many layers there are.
        routers += list(core.routers)
    for router in cast("list[Router]", routers):
        _retarget(router, targets, bias, grown)


def _retarget(router: Router, targets: tuple[int | None, ...], bias: float, grown: _Grown) -> None:
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


def _begin_shut(router: Router, place: int, structure: HModelStructure, shut: float) -> None:
    """Shut the new layer's router. It does not address itself; without the inflow gate it addresses no layer, or else
    it would send messages without being addressed."""
    biases = router.logits if router.outer is None else router.outer.bias
    if biases is None or (structure.window is not None and structure.inflow_gate):
        return
    with torch.no_grad():
        if structure.inflow_gate:
            biases[place] = -shut
        else:
            biases.fill_(-shut)


def _check_channels(core: HCore) -> None:
    for router in cast("list[Router]", list(core.routers)):
        if router.channels is not None and len(router.channels) >= core.structure.width:
            raise UsageError(
                f"a channel router of width {core.structure.width} has no channel left for another layer; "
                "take routers with the head linear or feedforward."
            )


def _check_place(core: HCore, place: int) -> None:
    if not 0 <= place < core.hidden_count:
        raise UsageError(f"there is no hidden layer {place}; places are 0 to {core.hidden_count - 1}.")


def _open(core: HCore, places: Sequence[int]) -> None:
    """Every connection to these layers begins with a logit of 0, but that of each to itself."""
    routers = cast("list[Router]", [*core.routers, *core.input_routers])
    for number, router in enumerate(routers):
        for biases in (router.logits, None if router.outer is None else router.outer.bias):
            if isinstance(biases, nn.Parameter):
                with torch.no_grad():
                    biases[[place for place in places if place != number]] = 0.0


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


def _set_disabled(model: HModelParts, places: set[int]) -> None:
    changed = _checked(model.structure, disabled=tuple(sorted(places)))
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

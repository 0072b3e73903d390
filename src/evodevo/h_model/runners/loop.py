"""Runs the hidden layers of one iteration: one call per layer, only for the samples with connections to it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, cast

import torch
from torch import Tensor, nn

from evodevo.operators.base import Operator

States = list[dict[str, Any]]
Rows = Tensor | slice
Active = Tensor | tuple[bool, ...]
"""Layers that each sample needs, (B, H), or that all of them need: one for each layer."""


class PassCache:
    """The tensors that a runner has prepared for one pass; opaque to its callers."""


class LayerRunner(ABC):
    """Runs layers and counts calls.

    Attributes:
        calls: Number of calls, by layer.
        rows: Number of samples over all calls, by layer.
    """

    def __init__(self) -> None:
        self.calls: list[int] = []
        self.rows: list[int] = []

    def reset(self) -> None:
        """Reset the counts to zero."""
        self.calls, self.rows = [], []

    def count(self, layer: int, layers: int, rows: int) -> None:
        """Count a call of one of the layers on some samples."""
        if torch.compiler.is_compiling():  # the number may be a symbol of the graph
            return
        if len(self.calls) != layers:
            self.calls, self.rows = [0] * layers, [0] * layers
        self.calls[layer] += 1
        self.rows[layer] += rows

    def prepare(self, layers: nn.ModuleList, x: Tensor) -> PassCache | None:
        """Prepare what all iterations of a pass share; x (B, H, S, d) is the layers' first input."""
        return None

    @abstractmethod
    def run(
        self,
        layers: nn.ModuleList,
        x: Tensor,
        masks: Tensor | None,
        active: Active | None,
        states: States | None,
        cache: PassCache | None = None,
    ) -> Tensor:
        """Run all layers.

        Args:
            layers: The H layers.
            x: Inputs of the layers, (B, H, S, d).
            masks: Real positions, (B, H, S), or None.
            active: True where a layer is needed; None for all. Elsewhere the output is 0, and a layer that no
                sample needs is not called.
            states: State of each layer, updated in place; all samples are run then.
            cache: Result of ``prepare`` for this pass.

        Returns:
            Outputs (B, H, S, d); in memory each layer's part is contiguous, which is how routers and the next layers
            read it.
        """

    def run_slots(
        self, layers: nn.ModuleList, x: Tensor, masks: Tensor | None, chosen: Tensor, active: Tensor
    ) -> Tensor:
        """Run a few layers for each sample, each layer once for all samples that chose it.

        Args:
            layers: The H layers.
            x: Inputs of the M slots of each sample, (B, M, S, d).
            masks: Real positions, (B, M, S), or None.
            chosen: The layer in each slot, (B, M).
            active: True where a slot is to be run, (B, M). Elsewhere the output is 0.

        Returns:
            Outputs (B, M, S, d).
        """
        nobody = len(layers)
        places = torch.where(active, chosen, nobody).flatten()
        counts = torch.bincount(places, minlength=nobody + 1).tolist()  # the only device synchronisation
        inputs, present = x.flatten(0, 1), None if masks is None else masks.flatten(0, 1)
        if max(counts) == len(places):  # one layer for all, as for a single sample
            place = counts.index(len(places))
            if place == nobody:
                return torch.zeros_like(x)
            self.count(place, nobody, len(places))
            alone: Tensor = layers[place](inputs, mask=present).y
            return alone.view_as(x)
        # Sorted by layer, so that the samples of each are one slice.
        order = places.argsort(stable=True)
        parts = torch.split(inputs.index_select(0, order), counts)
        real = [None] * (nobody + 1) if present is None else torch.split(present.index_select(0, order), counts)
        outputs: list[Tensor] = []
        for place, layer in enumerate(layers):
            if counts[place]:
                outputs.append(layer(parts[place], mask=real[place]).y)
                self.count(place, nobody, counts[place])
        if counts[nobody]:
            outputs.append(torch.zeros_like(parts[nobody]))
        return torch.cat(outputs).index_select(0, order.argsort()).view_as(x)

    def run_positions(self, layers: nn.ModuleList, x: Tensor, known: Tensor, chosen: Tensor, active: Tensor) -> Tensor:
        """Run a few layers at each position; a layer looks at all positions that it knows.

        Args:
            layers: The H layers.
            x: Inputs of the layers, (B, H, S, d).
            known: Positions that each layer may look at, (B, H, S); those at which it runs are among them.
            chosen: The layer in each slot of a position, (B, S, M); those in active slots differ.
            active: True where a slot is to be run, (B, S, M). Elsewhere the output is 0.

        Returns:
            Outputs of the slots, (B, M, S, d).
        """
        nobody = len(layers)
        slots = torch.where(active, chosen, nobody)
        here = torch.zeros(*chosen.shape[:2], nobody + 1, dtype=torch.bool, device=x.device)
        wanted = here.scatter(-1, slots, True)[..., :nobody].transpose(1, 2)
        places = slots.flatten()
        order = places.argsort(stable=True)
        inputs = x.unbind(1)  # one backward for all layers; see ``_run_all``
        outputs: list[Tensor] = []
        for place, rows in enumerate(rows_of(wanted.any(-1))):
            if rows is not None:
                layer = cast(Operator, layers[place])
                outputs.append(layer.at(inputs[place][rows], wanted[rows, place], mask=known[rows, place]))
                self.count(place, nobody, size_of(rows, x))
        idle = len(places) - sum(map(len, outputs))
        outputs.append(torch.zeros(idle, x.shape[-1], dtype=outputs[0].dtype if outputs else x.dtype, device=x.device))
        # Of every layer by sample and position, which is the order of the slots that name it.
        back = torch.cat(outputs).index_select(0, order.argsort())
        return back.view(*chosen.shape, x.shape[-1]).permute(0, 2, 1, 3)

    def run_stream(self, layers: nn.ModuleList, x: Tensor, known: Tensor, states: States) -> Tensor:
        """Continue the sequences of all layers; arguments and result as for ``run`` with states.

        A layer that knows none of the new positions is not run where its state does not count them.
        """
        some, every = torch.stack([known.any(-1).any(0), known.all(-1).all(0)]).tolist()
        outputs = []
        for place, layer in enumerate(layers):
            if not some[place] and layer.skips_padding:
                outputs.append(torch.zeros_like(x[:, place]))
                continue
            # Without a mask there is nothing to remember of it.
            output = layer(x[:, place], mask=None if every[place] else known[:, place], state=states[place])
            states[place] = output.state
            outputs.append(output.y)
            self.count(place, len(layers), x.shape[0])
        return torch.stack(outputs).transpose(0, 1)

    def one_by_one(
        self, layers: nn.ModuleList, x: Tensor, masks: Tensor | None, active: Active | None, states: States | None
    ) -> Tensor:
        """Run one layer after the other; arguments as for ``run``."""
        rows = None if active is None or states is not None else rows_of(active)
        if rows is None or all_run(rows):
            return self._run_all(layers, x, masks, states)
        output: Tensor | None = None
        for place, layer in enumerate(layers):
            here = rows[place]
            if here is not None:
                mask = None if masks is None else masks[here, place]
                output = written(output, x, here, place, layer(x[here, place], mask=mask).y)
                self.count(place, len(layers), size_of(here, x))
        return torch.zeros_like(x) if output is None else output

    def _run_all(self, layers: nn.ModuleList, x: Tensor, masks: Tensor | None, states: States | None) -> Tensor:
        # Unbinding has one backward for all layers; a slice has one each, over the inputs of all layers.
        inputs = x.unbind(1)
        present = [None] * len(layers) if masks is None else masks.unbind(1)
        outputs = []
        for place, layer in enumerate(layers):
            output = layer(inputs[place], mask=present[place], state=None if states is None else states[place])
            if states is not None:
                states[place] = output.state
            outputs.append(output.y)
            self.count(place, len(layers), x.shape[0])
        return torch.stack(outputs).transpose(0, 1)


class LoopRunner(LayerRunner):
    """One layer after the other."""

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
        return self.one_by_one(layers, x, masks, active, states)


def rows_of(active: Active) -> list[Rows | None]:
    """Samples that need each layer: None for none, a slice for all. A tensor is fetched from the device once."""
    if isinstance(active, tuple):
        return [slice(None) if needed else None for needed in active]
    wanted = active.T.cpu()
    rows: list[Rows | None] = []
    for place, count in enumerate(wanted.sum(1).tolist()):
        if 0 < count < len(active):
            rows.append(wanted[place].nonzero().squeeze(1).to(active.device))
        else:
            rows.append(slice(None) if count else None)
    return rows


def all_run(rows: list[Rows | None]) -> bool:
    """Whether all samples need all layers."""
    return all(isinstance(here, slice) for here in rows)


def size_of(rows: Rows, x: Tensor) -> int:
    """Number of samples that ``rows`` selects."""
    return len(rows) if isinstance(rows, Tensor) else x.shape[0]


def written(output: Tensor | None, x: Tensor, rows: Rows, places: Tensor | int, outputs: Tensor) -> Tensor:
    """Write the outputs of some layers for some samples into zeros of the shape of x (B, H, S, d)."""
    if output is None:
        # Layers first in memory; see ``LayerRunner.run``.
        shape = (x.shape[1], x.shape[0], *x.shape[2:])
        output = torch.zeros(shape, dtype=outputs.dtype, device=x.device).transpose(0, 1)
    output[rows, places] = outputs.to(output.dtype)
    return output

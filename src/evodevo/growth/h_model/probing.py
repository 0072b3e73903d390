"""Measures what each hidden layer of an H-Model does, as ``growth.probes`` does for zoos (eqs. 19, 66 to 68, 70, 91).

Source: docs/spec/architect_thyself.md#probes.

A layer's share of the inflow takes the place of a zoo's router weight: the strength of all connections to it, over all
iterations, relative to the other layers. Leaving a layer out sets its birth factor to 0, so that neither it nor its
output is computed; everything after the first iteration depends on everything else, so that each of N layers costs a
pass of the core. Inputs are read once.

Legend: S samples, B of them at once, H hidden layers of which N are live, T iterations, d width; P is 1, or positions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from evodevo.errors import DataError
from evodevo.growth.benefit import ClassMembers
from evodevo.growth.growable import Growable
from evodevo.growth.metrics import Tally
from evodevo.growth.pairwise import Pairs
from evodevo.growth.probes import EXACT, TINY, ModuleProbe, benefits
from evodevo.growth.spec import FitnessSettings
from evodevo.h_model.core import StepTrace
from evodevo.h_model.model import HModel
from evodevo.h_model.runners.loop import Active, LayerRunner, PassCache, States
from evodevo.module_zoo.modules.vector import genotype_distance
from evodevo.networks.base import Batch
from evodevo.networks.routing.gates import widened
from evodevo.networks.routing.pools import masked_mean
from evodevo.networks.routing.spec import InferenceStructure


@torch.no_grad()
def probe(model: HModel, pool: Growable, batches: Iterable[Batch], settings: FitnessSettings) -> ModuleProbe:
    """Measure all live layers; the model keeps its mode, and no random number is drawn.

    Args:
        model: Model to measure.
        pool: Its layers as modules.
        batches: Batches of the split ``architecture``, on the model's device.
        settings: Kind of ablation: ``masked`` removes the layer, ``zero`` sets its output to 0.

    Raises:
        DataError: No sample, or none with a target.
        UsageError: A batch lacks an output's target.
    """
    was_training = model.training
    model.eval()
    try:
        sums = _HModelSums(model, pool)
        for batch in batches:
            sums.add(batch, zero=settings.ablation == "zero")
    finally:
        model.train(was_training)
    return sums.probe()


@contextmanager
def under(model: HModel, **changes: Any) -> Iterator[None]:
    """Context in which attributes of the core have other values."""
    before = {name: getattr(model.core, name) for name in changes}
    try:
        for name, value in changes.items():
            setattr(model.core, name, value)
        yield
    finally:
        for name, value in before.items():
            setattr(model.core, name, value)


class Muted(LayerRunner):
    """A runner that wraps another one and sets the output of one layer to 0."""

    def __init__(self, inner: LayerRunner, place: int) -> None:
        super().__init__()
        self.inner = inner
        self.place = place

    def prepare(self, layers: nn.ModuleList, x: Tensor) -> PassCache | None:
        """See ``LayerRunner``."""
        return self.inner.prepare(layers, x)

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
        outputs = self.inner.run(layers, x, masks, active, states, cache).clone()
        outputs[:, self.place] = 0
        return outputs

    def run_slots(
        self, layers: nn.ModuleList, x: Tensor, masks: Tensor | None, chosen: Tensor, active: Tensor
    ) -> Tensor:
        """See ``LayerRunner``."""
        outputs = self.inner.run_slots(layers, x, masks, chosen, active)
        return outputs.masked_fill((chosen == self.place)[..., None, None], 0)

    def run_positions(self, layers: nn.ModuleList, x: Tensor, known: Tensor, chosen: Tensor, active: Tensor) -> Tensor:
        """See ``LayerRunner``."""
        outputs = self.inner.run_positions(layers, x, known, chosen, active)
        return outputs.masked_fill((chosen == self.place).transpose(1, 2).unsqueeze(-1), 0)


class _HModelSums:
    """Running sums over batches."""

    def __init__(self, model: HModel, pool: Growable) -> None:
        self.model = model
        self.genotypes = {module.id: module.genotype for module in pool.live}
        self.places = pool.places
        specs, count = self.model.output_specs, len(self.places)
        self.samples = 0
        self.routed, self.dense, self.uniform = (Tally(specs) for _ in range(3))
        self.left_out = {name: Tally(specs) for name in self.places}
        self.alone = {name: Tally(specs) for name in self.places}
        self.classes = ClassMembers(specs)
        self.usage = torch.zeros(count, dtype=torch.float64)
        self.advantage = torch.zeros(count, dtype=torch.float64)
        self.entropy = 0.0
        self.distance = torch.zeros(count, count, dtype=torch.float64)
        self.norm = torch.zeros(count, dtype=torch.float64)

    def add(self, batch: Batch, *, zero: bool) -> None:
        model, births = self.model, self.model.births
        messages = model.inputs(batch)
        real = None if messages.masks is None else messages.masks.any(1)

        def answers(moments: list[StepTrace] | None = None) -> Mapping[str, Tensor]:
            final = model._final(messages.values, messages.masks, messages.places, moments)
            logits: dict[str, Tensor] = model.outputs(final.y, final.masks, messages.places)
            return logits

        moments: list[StepTrace] = []
        heads = answers(moments)
        size = messages.values.shape[0]
        self.samples += size
        self.routed.add(heads, batch)
        self.classes.add(batch)
        self.usage += self._shares(moments, real, size).double().sum(0).cpu()
        sparse = model.core.inference.mode != "dense"
        with under(model, inference=InferenceStructure()):
            if sparse:
                moments = []
                heads = answers(moments)
            each = self.dense.add(heads, batch)
            shares = self._shares(moments, real, size)
            with under(model, level=True):
                alike = self.uniform.add(answers(), batch)
            self.advantage += (shares * (alike - each).unsqueeze(1)).double().sum(0).cpu()
            self.entropy += float(-(shares * shares.clamp(min=TINY).log()).sum())
            for name, place in self.places.items():
                changes: dict[str, Any] = {"births": {**births, place: 0.0}}
                if zero:
                    changes = {"runner": Muted(model.core.runner, place)}
                with under(model, **changes):
                    self.left_out[name].add(answers(), batch)
                others: dict[int, float] = {other: 0.0 for other in self.places.values() if other != place}
                with under(model, births=others):
                    self.alone[name].add(answers(), batch)
        wide = widened(self._mean_outputs(moments, size))
        self.distance += torch.cdist(wide, wide, compute_mode=EXACT).double().sum(0).cpu()
        self.norm += wide.norm(dim=-1).double().sum(0).cpu()

    def _shares(self, moments: list[StepTrace], real: Tensor | None, size: int) -> Tensor:
        """(B, N): each layer's share of the connections to all of them, summed over all iterations."""
        hidden, total = self.model.core.hidden_count, None
        for moment in moments:
            if moment.inflow.shape[-1] <= self.model.core.output_count:
                continue  # after the last iteration hidden layers receive nothing
            inflow, rows = moment.inflow[..., :hidden], moment.rows
            mask = real if real is None or rows is None else real[rows]
            if inflow.shape[1] == 1:
                inflows = inflow[:, 0]
            else:
                mask = None if mask is None else mask.unsqueeze(1).expand(-1, hidden, -1)  # (B, H, S)
                inflows = masked_mean(inflow.transpose(1, 2), mask)
            inflows = inflows[:, list(self.places.values())]
            if total is None:
                total = inflows.new_zeros(size, inflows.shape[-1])
            if rows is None:
                total = total + inflows
            else:
                total = total.index_add(0, rows, inflows)
        if total is None:  # an H-Model without iterations has hidden layers that never run
            return torch.zeros(size, len(self.places))
        return total / total.sum(-1, keepdim=True).clamp(min=TINY)

    def _mean_outputs(self, moments: list[StepTrace], size: int) -> Tensor:
        """(B, N, d): each layer's mean output over positions, summed over iterations."""
        total = torch.zeros(size, len(self.places), self.model.structure.width)
        for moment in moments:
            if moment.mean_messages is None:
                continue
            mean_messages = moment.mean_messages[:, list(self.places.values())]
            total = total.to(mean_messages)
            rows = torch.arange(size, device=mean_messages.device) if moment.rows is None else moment.rows
            total = total.index_add(0, rows, mean_messages)
        return total

    def probe(self) -> ModuleProbe:
        if not self.samples:
            raise DataError("a probe needs at least one sample of the split 'architecture'; it got none.")
        ids, count = tuple(self.places), self.samples
        dense = self.dense.loss()
        lengths = (self.norm.unsqueeze(0) + self.norm.unsqueeze(1)).clamp(min=TINY)
        return ModuleProbe(
            ids=ids,
            samples=count,
            loss=self.routed.loss(),
            accuracy=float(self.routed.right().mean()),
            dense_loss=dense,
            uniform_loss=self.uniform.loss(),
            entropy=self.entropy / count,
            usage=dict(zip(ids, (self.usage / count).tolist(), strict=True)),
            impact={name: self.left_out[name].loss() - dense for name in ids},
            advantage=dict(zip(ids, (self.advantage / count).tolist(), strict=True)),
            alone={name: self.alone[name].right() for name in ids},
            genotype_distance=Pairs.of_each(ids, lambda a, b: genotype_distance(self.genotypes[a], self.genotypes[b])),
            output_distance=Pairs(ids, (self.distance / lengths).numpy()),
            benefit=benefits(self.dense, self.left_out, self.classes),
        )

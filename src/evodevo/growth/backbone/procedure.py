"""The procedure ``grow_backbone``: one training in segments, with edits of the backbone between two of them.

LIVs keep what they have learned, the optimiser keeps the moments of what they became, and the schedule of the learning
rate goes on: all is one training under one budget. Validation and test have windows of the task's length throughout.
Numbers drawn by an edit follow from the seed of the training and the number of the edit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Any, cast

import torch

from evodevo.backbone.model import Backbone
from evodevo.backbone.network import BackboneNetwork
from evodevo.errors import UsageError
from evodevo.experiments.trained import Trained
from evodevo.experiments.trainer import Trainer
from evodevo.growth.backbone.base import BackboneEdit
from evodevo.growth.backbone.spec import STAGES, GrowthPlan
from evodevo.growth.backbone.weights import check_answers
from evodevo.randomness import integer_seed
from evodevo.settings import validate
from evodevo.tasks.inputs import Batch
from evodevo.training.loop import TrainingResult

LOOKED_AT = 32
"""Training windows on which the loss before and after edits is measured."""
CHECKED = 4
"""Windows on which an edit that preserves answers is checked."""


def train_growing(bench: Trainer, options: Mapping[str, Any]) -> Trained:
    """Train a backbone that is edited on the way.

    Facts, under ``stages``, one for each segment: ``edits`` before it (sentences), ``at`` (share of the budget),
    ``step`` and ``tokens`` before it, ``livs``, ``width``, ``window`` (tokens of a training window), ``parameters``,
    ``flops`` of a training step, and the loss on training windows before and after the edits (``loss_before``,
    ``loss_after``, in nats; null for the first).

    Raises:
        UsageError: Wrong options, or an edit that the backbone does not admit.
    """
    plan = validate(GrowthPlan, dict(options), what="options of grow_backbone")
    plan.structures(bench.arm.network.structure)
    growing = _Growing(bench, plan.lengths(bench.task.inputs[0].length)[0])
    for at, edits in groupby(plan.edits, key=lambda edit: edit.at):
        result = growing.train(at)
        if result.state != "paused":
            break
        growing.edit(at, list(edits), result)
    else:
        result = growing.train(None)
    return Trained(growing.network, result, extra={STAGES: growing.stages})


class _Growing:
    """A training in the middle of its growth."""

    def __init__(self, bench: Trainer, window: int) -> None:
        self.bench = bench
        self.whole = bench.task.inputs[0].length
        self.window = window
        self.network = cast(Backbone, bench.build())
        self.stages: list[dict[str, Any]] = []
        self._begun: dict[str, Any] = {
            "edits": [],
            "at": 0.0,
            "step": 0,
            "tokens": 0,
            "loss_before": None,
            "loss_after": None,
        }

    def train(self, until: float | None) -> TrainingResult:
        """One segment, up to this share of the budget."""
        result = self.bench.train(
            self.network, batch_at=_windows(self.bench, self.whole, self.window), until_share=until
        )
        # Recorded: after an interruption no step of an ended segment is counted again.
        self.stages.append(self.bench.once(f"stage {len(self.stages)}", lambda: {**self._begun, **self._sizes()}))
        return result

    def edit(self, at: float, edits: Sequence[BackboneEdit], result: TrainingResult) -> None:
        """The edits of one moment."""
        number = len(self.stages)
        before = self._loss()
        for place, edit in enumerate(edits):
            self._make(edit, f"{number}/{place}")
        after = self._loss()
        # Two forward passes; a step has one, and a backward pass of twice its cost. The larger network counts for both.
        self.bench.spend(f"edits {number}", 2 * LOOKED_AT * self._forward_flops())
        self._begun = {
            "edits": [edit.words() for edit in edits],
            "at": at,
            "step": result.steps,
            "tokens": result.tokens * self.whole,
            **self.bench.once(f"edits {number}", lambda: {"loss_before": before, "loss_after": after}),
        }

    def _make(self, edit: BackboneEdit, key: str) -> None:
        """One edit; where a checkpoint will bring the weights, without them."""
        bench, network = self.bench, self.network
        grown = cast(Backbone, bench.build(BackboneNetwork(structure=edit.after(network.structure))))
        self.network, self.window = grown, edit.length(self.window)
        if bench.recalls:
            return
        drawn = torch.Generator().manual_seed(integer_seed(bench.seed, "edit", key))
        origins = edit.fill(network, grown, drawn)
        if edit.preserves:
            tokens = bench.task.batch("train", bench.seed, 0, CHECKED)[network.input_specs[0].name]
            check_answers(network, grown, torch.as_tensor(tokens).to(bench.precision.device))
        bench.carry(origins)

    def _loss(self) -> float | None:
        """Loss on training windows, in nats; None where the weights are still to come."""
        if self.bench.recalls:
            return None
        loss: float = self.bench.measure(self.network, "train", samples=LOOKED_AT).loss
        return loss

    def _forward_flops(self) -> float:
        """FLOPs of one sample, by the cost model."""
        task = self.bench.task
        spec = BackboneNetwork(structure=self.network.structure)
        flops: float = spec.cost(inputs=task.inputs, outputs=task.outputs).flops
        return flops

    def _sizes(self) -> dict[str, Any]:
        network = self.network
        return {
            "livs": len(network.plans),
            "width": network.dims.width,
            "window": self.window,
            "parameters": sum(parameter.numel() for parameter in network.parameters()),
            "flops": self.bench.flops_per_step,
        }


def _windows(bench: Trainer, whole: int, window: int) -> Callable[[int], Batch]:
    """The batches of the task, each window cut into windows of so many tokens."""

    def batch_at(step: int) -> Batch:
        batch: Batch = bench.task.batch("train", bench.seed, step, bench.training.batch_size)
        if window == whole:
            return batch
        if odd := sorted(name for name, values in batch.items() if values.shape[1:] != (whole,)):
            raise UsageError(f"windows of {whole} tokens cannot be cut where samples have {odd[0]!r} beside them.")
        return {name: values.reshape(-1, window) for name, values in batch.items()}

    return batch_at

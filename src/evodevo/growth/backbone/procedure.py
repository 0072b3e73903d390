"""The procedure ``grow_backbone``: one training in segments, with edits of the backbone between two of them.

LIVs keep what they have learned, the optimiser keeps the moments of what they became, and the schedule of the learning
rate goes on: all is one training under one budget. Validation and test have windows of the task's length throughout.
Numbers drawn by an edit follow from the seed of the training and the number of the edit.

Where a plan has starts, backbones race for what the growth begins with (``racing``); what follows has what is left of
the budget, and shares are of that. Where it has choices, each event trains two networks for equal FLOPs, with an edit
and without it, and the better one goes on (``forking``). Samples that judge are held back from training.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import torch

from evodevo.backbone.model import Backbone
from evodevo.backbone.network import BackboneNetwork
from evodevo.errors import GenomeError, UsageError
from evodevo.experiments.trained import Trained
from evodevo.experiments.trainer import Branch, Trainer
from evodevo.growth.backbone.base import BackboneEdit
from evodevo.growth.backbone.choosing import choose
from evodevo.growth.backbone.forking import BackboneForks, ForkedBackbone
from evodevo.growth.backbone.log import BackboneLog, write_log
from evodevo.growth.backbone.racing import start_of
from evodevo.growth.backbone.records import EVENTS, NOTHING_TRIED, RACE, BackboneEvent
from evodevo.growth.backbone.spec import STAGES, Edit, GrowthMoment, GrowthPlan
from evodevo.growth.backbone.weights import check_answers
from evodevo.growth.backbone.windows import cut_windows, forward_flops
from evodevo.growth.forks.plan import forks_planned
from evodevo.growth.forks.records import ForkRecord
from evodevo.growth.forks.running import NONE_LEFT, Forked
from evodevo.randomness import integer_seed
from evodevo.settings import validate
from evodevo.tasks.held.back import with_architecture_split
from evodevo.tasks.inputs import Batch
from evodevo.training.loop import TrainingResult

LOOKED_AT = 32
"""Training windows on which the loss before and after edits is measured."""
CHECKED = 4
"""Windows on which an edit that preserves answers is checked."""
GROWTH = "growth"
"""Type of the events in the store."""


def train_growing(bench: Trainer, options: Mapping[str, Any]) -> Trained:
    """Train a backbone that is edited on the way.

    Facts, under ``stages``, one for each network that was trained: ``edits`` before it (sentences), ``at`` (share of
    the budget), ``step`` and ``tokens`` before it, ``livs``, ``width``, ``window`` (tokens of a training window),
    ``parameters``, ``flops`` of a training step, and the loss on training windows before and after the edits
    (``loss_before``, ``loss_after``, in nats; null for the first). Under ``backbone_events``, each event
    (``records.BackboneEvent``). Under ``forks``, where there are choices, their plan and each of them
    (``growth.forks.records.ForkRecord``). Under ``backbone_race``, where there are starts, who raced
    (``records.BackboneRaceRecord``). Blob: ``edits``, the log (``log``).

    Raises:
        UsageError: Wrong options, or an edit that the backbone does not admit.
    """
    plan = validate(GrowthPlan, dict(options), what="options of grow_backbone")
    plan.structures(bench.arm.network.structure)
    growing = _Growing(bench, plan)
    for number, moment in enumerate(growing.moments, 1):
        result = growing.train(moment.at)
        if result.state != "paused":
            break
        growing.event(number, moment, result)
    else:
        result = growing.train(None)
    bench.flush()
    log = BackboneLog(growing.start, plan.lengths(growing.whole)[0], tuple(growing.events))
    return Trained(growing.grown.network, result, extra=growing.facts(), blobs={"edits": write_log(log)})


class _Growing:
    """A training in the middle of its growth."""

    def __init__(self, bench: Trainer, plan: GrowthPlan) -> None:
        self.bench = bench
        self.plan = plan
        self.whole = bench.task.inputs[0].length
        self.task = with_architecture_split(bench.task) if plan.judges else bench.task
        window = plan.lengths(self.whole)[0]
        self.before = start_of(bench, plan, self.task, window)
        self.grown = ForkedBackbone(self.before.network, window)
        self.start = self.before.network.structure
        self.stages: list[dict[str, Any]] = []
        self.events: list[BackboneEvent] = []
        self.forks = None
        if plan.choices:
            self.forks = BackboneForks(bench, plan, self.before.training, self.task, self._batch, self.grown)
        self._begun: dict[str, Any] | None = {
            "edits": [],
            "at": 0.0,
            "step": 0,
            "tokens": 0,
            "loss_before": None,
            "loss_after": None,
        }
        if self.before.race is not None:
            race = self.before.race
            bench.record_event(
                GROWTH, "race", {"backbone_race": race.model_dump(mode="json")}, growth={"told": race.told}
            )
        if self.forks is not None:
            planned = self.forks.plan
            told = forks_planned(
                planned.most, planned.steps, planned.instead, edits=planned.edits, nothing=NOTHING_TRIED
            )
            bench.record_event(GROWTH, "forks", {"forks": planned.model_dump(mode="json")}, growth={"told": told})

    @property
    def moments(self) -> tuple[GrowthMoment, ...]:
        """The moments of the plan; nothing is tried where forks have no room."""
        tries = self.forks is not None and self.forks.happen
        return tuple(moment for moment in self.plan.moments if moment.edits or tries)

    def train(self, until: float | None) -> TrainingResult:
        """One segment, up to this share of the budget."""
        cut = cut_windows(self.whole, self.grown.window)
        result = self.bench.train(
            self.grown.network,
            training=self.before.training,
            task=self.task,
            batch_at=lambda step: cut(self._batch(step)),
            until_share=until,
        )
        if self._begun is not None:
            begun, self._begun = self._begun, None
            # Recorded: after an interruption no step of an ended segment is counted again.
            self.stages.append(self.bench.once(f"stage {len(self.stages)}", lambda: {**begun, **self._sizes()}))
        return result

    def event(self, number: int, moment: GrowthMoment, result: TrainingResult) -> None:
        """The edits of one moment, or one that is tried in a fork."""
        at = moment.at
        edits, note = self._planned(moment) if moment.edits else self._chosen(number)
        event = BackboneEvent(number=number, at=at, step=result.steps, edits=edits, kept=bool(edits), note=note)
        if edits:
            new = _fork_name(number) not in self.bench.facts
            before, without = self.grown, self.bench.branch() if new and not moment.edits else None
            begun = self._edit(number, at, edits, result)
            if not moment.edits:
                event = self._forked(event, before, without)
            self._begun = begun if event.kept else self._begun
        self.events.append(event)
        live = {"growth": {"told": event.told}} if edits or moment.edits else {}
        self.bench.record_event(GROWTH, f"event {number}", {"backbone_event": event.model_dump(mode="json")}, **live)

    def facts(self) -> dict[str, Any]:
        """See ``train_growing``."""
        events = [event.model_dump(mode="json") for event in self.events]
        return {
            STAGES: self.stages,
            EVENTS: events,
            **({} if self.forks is None else {"forks": self.forks.facts(self._tried)}),
            **({} if self.before.race is None else {RACE: self.before.race.model_dump(mode="json")}),
        }

    # Edits

    def _planned(self, moment: GrowthMoment) -> tuple[tuple[Edit, ...], str]:
        """The edits of a moment; none, and why, where forks led to a network that does not admit them."""
        structure = self.grown.network.structure
        try:
            for edit in moment.edits:
                structure = edit.after(structure)
        except (UsageError, GenomeError) as error:
            return (), str(error)
        return moment.edits, ""

    def _edit(self, number: int, at: float, edits: Sequence[Edit], result: TrainingResult) -> dict[str, Any]:
        """Make the edits; what the stage that begins with them has."""
        before = self._loss()
        for place, edit in enumerate(edits):
            self._make(edit, f"{number}/{place}")
        after = self._loss()
        # Two forward passes; a step has one, and a backward pass of twice its cost. The larger network counts for both.
        flops = forward_flops(self.task, self.grown.network.structure, self.whole)
        self.bench.spend(f"edits {number}", 2 * LOOKED_AT * flops)
        return {
            "edits": [edit.words() for edit in edits],
            "at": at,
            "step": result.steps,
            "tokens": result.tokens * self.whole,
            **self.bench.once(f"edits {number}", lambda: {"loss_before": before, "loss_after": after}),
        }

    def _make(self, edit: BackboneEdit, key: str) -> None:
        """One edit; where a checkpoint will bring the weights, without them."""
        bench, network = self.bench, self.grown.network
        grown = cast(Backbone, bench.build(BackboneNetwork(structure=edit.after(network.structure))))
        self.grown = ForkedBackbone(grown, edit.length(self.grown.window))
        if bench.recalls:
            return
        drawn = torch.Generator().manual_seed(integer_seed(bench.seed, "edit", key))
        origins = edit.fill(network, grown, drawn)
        if edit.preserves:
            tokens = bench.task.batch("train", bench.seed, 0, CHECKED)[network.input_specs[0].name]
            check_answers(network, grown, torch.as_tensor(tokens).to(bench.precision.device))
        bench.carry(origins)

    # Forks

    def _chosen(self, number: int) -> tuple[tuple[Edit, ...], str]:
        """The edit that is tried, if any, and why there is none."""
        assert self.forks is not None, "there are choices"
        if sum(fork.spent > 0 for _, fork in self._tried) >= self.forks.plan.most:
            return (), NONE_LEFT
        return choose(
            self.plan,
            number,
            self.grown.network.structure,
            self.grown.window,
            whole=self.whole,
            earlier=self.events,
            seed=self.bench.seed,
        )

    def _forked(self, event: BackboneEvent, before: ForkedBackbone, without: Branch | None) -> BackboneEvent:
        """The event after a fork has decided; the network is the one that goes on.

        Args:
            event: The event with its edits, which this network has.
            before: The network without them.
            without: Where its training was; None where the fork is known from before an interruption.
        """
        assert self.forks is not None, "it forks"
        bench, name = self.bench, _fork_name(event.number)
        branches: list[Branch] = []
        forked: list[Forked] = []

        def fork() -> dict[str, Any]:
            assert self.forks is not None, "it forks"
            assert without is not None, "the fork is not known"
            spent = bench.branch().snapshot.cursor.flops
            branches.extend(branch.at(spent) for branch in (bench.branch(), without))
            words = tuple(edit.words() for edit in event.edits)
            earlier = [tried for _, tried in self._tried]
            sides = (self.grown, branches[0]), (before, branches[1])
            forked.append(self.forks.run(words, *sides, number=event.number, earlier=earlier))
            return forked[0].record.model_dump(mode="json")

        record = validate(ForkRecord, bench.once(name, fork), what="a fork")
        bench.spend(name, record.spent)
        if not record.kept:
            self.grown = before
            if branches:
                bench.back_to(branches[1])
        if record.winner_flops:
            on = None if not branches else branches[0 if record.kept else 1]
            bench.go_on(on, forked[0].result if forked else None, record.winner_flops)
        return event.model_copy(update={"fork": record, "kept": record.kept, "note": record.reason})

    @property
    def _tried(self) -> list[tuple[int, ForkRecord]]:
        return [(event.number, event.fork) for event in self.events if event.fork is not None]

    # Within

    def _batch(self, step: int) -> Batch:
        """A batch of the training, in windows of the task; the first is the one after those of the race."""
        number = step + self.before.trained
        batch: Batch = self.task.batch("train", self.bench.seed, number, self.bench.training.batch_size)
        return batch

    def _loss(self) -> float | None:
        """Loss on training windows, in nats; None where the weights are still to come."""
        if self.bench.recalls:
            return None
        loss: float = self.bench.measure(self.grown.network, "train", samples=LOOKED_AT, task=self.task).loss
        return loss

    def _sizes(self) -> dict[str, Any]:
        network = self.grown.network
        return {
            "livs": len(network.plans),
            "width": network.dims.width,
            "window": self.grown.window,
            "parameters": sum(parameter.numel() for parameter in network.parameters()),
            "flops": self.bench.flops_per_step,
        }


def _fork_name(number: int) -> str:
    return f"fork {number}"

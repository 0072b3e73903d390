"""The trainer of a procedure's networks: task, clock, checkpoints, validation curve.

A training may have several stages. The results of stages and of measurements between them are kept with every
checkpoint, so that a procedure that is called again after an interruption finds them, and only the stage that was cut
short goes on.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from evodevo.canonical import digest
from evodevo.errors import NotFoundError, StoreDamagedError, UnsafeFileError
from evodevo.execution.base import Report
from evodevo.experiments.budget_share import Used, seconds_of_facts, share_of_budget
from evodevo.experiments.checkpoint_selection import BestWeights
from evodevo.experiments.flop_counter import look_at_step
from evodevo.experiments.loss_terms import LossTerms
from evodevo.experiments.measure import NetworkMeasurement, measure, places
from evodevo.experiments.settings import NetworkEvaluationSettings, task_settings, training_settings
from evodevo.experiments.trained import Trained
from evodevo.experiments.trainer_state import FinishedStage, Memory, SelectionState, read_memory, result_at, result_of
from evodevo.experiments.trials import Trial
from evodevo.networks.base import Network
from evodevo.networks.build import build_network
from evodevo.networks.inheritance import inherit
from evodevo.networks.spec import NetworkEnvelope, NetworkSpec
from evodevo.search.problem import WHOLE
from evodevo.storage.blobs import BlobPool
from evodevo.tasks.base import SampleTask, Split
from evodevo.tasks.features import FeaturesTask
from evodevo.training import checkpoints, replicas
from evodevo.training.loop import LossFunction, TrainingProgress, TrainingResult, TrainingSnapshot, model_loss, train
from evodevo.training.precision import Batch, Precision
from evodevo.training.settings import TrainingSettings
from evodevo.training.surgery import Origins, carry_state

INHERITED = "inherited"
"""Name of the fact about inherited weights; see ``networks.inheritance.inherit``."""

CURVE = ("validation_loss", "validation_error", "flops", "seconds")
"""Series over steps, one point each at every measurement while training. Beside them: ``validation_<metric>``, of the
metric that selects weights, and ``loss/<term>``, each term of the loss, mean over the steps since the point before."""


@dataclass(frozen=True)
class Branch:
    """A position between two segments of a training.

    Attributes:
        snapshot: Progress, and state of the optimiser, for the network as it was there.
        since: Clock at the end of the segment before.
        best: Selection of weights until then; None where a change of the network ended it.
    """

    snapshot: TrainingSnapshot
    since: float
    best: BestWeights | None

    def at(self, flops: float) -> Branch:
        """The same after so many FLOPs."""
        cursor = self.snapshot.cursor.model_copy(update={"flops": flops})
        return replace(self, snapshot=replace(self.snapshot, cursor=cursor))


class Trainer:
    """The trainer that a procedure is given.

    Args:
        arm: the trained arm.
        settings: settings of training and measurements.
        task: the opened task.
        seed: seed of initialisation, data order and every draw.
        precision: device and number format.
        pool: pool of the checkpoints; None keeps none.
        report: receiver of live messages.
        resume: digest of the checkpoint to resume from.
        cache_folder: folder for data that several trainings share.

    Attributes:
        training: settings of this arm's training.
        flops_per_step: counted FLOPs of a step of the last stage, forward and backward.
        tokens_per_sample: number of tokens of a budget that a sample takes.
        state: JSON that a procedure may change at every step; a checkpoint keeps it as it is at that step.
        held: digests of blobs in the pool that the state needs; a holder of a checkpoint must hold them, too.
        terms: share of the budget after which a training stops, and whose weights it begins with.
        snapshot: the checkpoint of a training that stopped there, as ``save`` gives it; None before.
    """

    def __init__(
        self,
        arm: Trial,
        settings: NetworkEvaluationSettings,
        task: SampleTask,
        seed: int,
        precision: Precision,
        pool: BlobPool | None,
        report: Report,
        resume: str | None,
        cache_folder: Path,
    ) -> None:
        self.arm = arm
        self.settings = settings
        self.task = task
        self.seed = seed
        self.precision = precision
        self.pool = pool
        self.cache_folder = cache_folder
        self.training = training_settings(settings, arm)
        self.flops_per_step = 0.0
        self.tokens_per_sample = 1
        self.course: dict[str, bytes] = {}
        self.terms = WHOLE
        self.snapshot: tuple[str, list[str]] | None = None
        self._report = report
        self._kept = self._recall(resume)
        self._memory = Memory() if self._kept is None else read_memory(self._kept)
        self.state: dict[str, Any] = dict(self._memory.state)
        self.held: list[str] = []
        self._facts: dict[str, Any] = dict(self._memory.facts)
        self._series = {name: list(self._memory.series.get(name, ())) for name in (*CURVE, *self._memory.series)}
        self._terms = LossTerms(self._memory.terms)
        self._selections: dict[str, SelectionState] = dict(self._memory.selections)
        self._best: BestWeights | None = None
        self._ended: list[FinishedStage] = []
        self._steps = 0
        self._points = 0  # of the curve that are due no more in this stage
        self._paused = self._memory.paused
        self._spent: dict[str, float] = dict(self._memory.spent)
        self._spent_before = self._memory.spent_before  # of earlier stages than the present one
        self._border: tuple[TrainingSnapshot, float] | None = None  # between two segments: its position, and since when
        self._unsent: list[dict[str, Any]] = []
        self._shown = 0.0  # share of the whole budget in the last report
        self._counted = ""  # digest of the network whose step has been counted

    # For procedures

    def build(self, network: NetworkSpec | None = None) -> Network:
        """The arm's network, or another one, over the task's inputs and outputs, initialised by the seed."""
        built = build_network(network or self.arm.network, self.task.inputs, self.task.outputs, self.seed)
        return built.to(self.precision.device)

    def inherit(self, network: Network) -> None:
        """Begin with the tensors of the donors, where the terms have some; not again after an interruption.

        Raises:
            NotFoundError, StoreDamagedError, UnsafeFileError: weights of a donor are gone or damaged.
        """
        pool, donors = self.pool, self.terms.donors
        if donors and pool is not None:
            self.once(INHERITED, lambda: inherit(network, donors, pool))

    def once(self, name: str, compute: Callable[[], Any]) -> Any:
        """Result of ``compute`` (JSON), computed once, also over interruptions."""
        if name not in self._facts:
            self._facts[name] = compute()
        return self._facts[name]

    def train(
        self,
        network: Network,
        *,
        training: TrainingSettings | None = None,
        task: SampleTask | None = None,
        batch_at: Callable[[int], Batch] | None = None,
        loss_function: LossFunction = model_loss,
        factors: Mapping[str, float] | None = None,
        watched: bool = True,
        until: int | None = None,
        until_share: float | None = None,
    ) -> TrainingResult:
        """One stage of training, in place. See ``procedures`` for the behaviour after an interruption.

        With ``until`` or ``until_share`` the stage pauses there (state "paused"), and the next call goes on with it:
        with its step, its schedule, and the moments of every parameter that still has its name (see ``carry`` where
        names move). Work in between may change the network, and counts against a budget in seconds.

        Where the settings select weights, the network has the best ones afterwards, and the stage may end early: that
        is a stage that has finished. After a change of structure they are selected anew: weights of the old network do
        not fit the new one. A budget in seconds covers everything inside: steps and measurements.

        Args:
            network: the trained network; parameters without gradients stay.
            training: settings of this stage; the arm's if left out.
            task: task of the training samples; the bench's if left out.
            batch_at: the batch of step k, a function of k alone; random samples of the task if left out.
            loss_function: the network's own if left out.
            factors: factors of the learning rates of parts, see ``optimizers.build``.
            watched: whether it is measured on validation samples, for the curve and the selection of weights; false for
                a search, which must not see them.
            until: step of the whole stage before which it pauses; a stage that ends earlier has finished.
            until_share: share of its budget after which it pauses.
        """
        stage = len(self._ended)
        if stage < self._memory.stage:
            ended = self._memory.ended[stage]
            self._end(ended)
            return result_of(ended)
        settings, source = training or self.training, task or self.task
        goes_on = bool(self._ended) and self._ended[-1].state == "paused"
        if not goes_on and (self._kept is None or stage > self._memory.stage):
            self._spent_before = self.spent
        snapshot = self._restore(network) if stage == self._memory.stage else None
        cut_short = snapshot is not None
        if cut_short:
            self.flops_per_step, self._counted = self._memory.flops_per_step, self._memory.counted
        self._best = self._selection(stage, network, cut_short) if watched else None
        if snapshot is None:
            snapshot = self._cross_border(network)
        batch_of = batch_at or (lambda step: source.batch("train", self.seed, step, settings.batch_size))
        network.to(self.precision.device)
        if not (cut_short and self.flops_per_step and not self._memory.border):
            self._count_flops(network, batch_of, again=bool(self._steps_of_segments))
        # A stage that was cut short has points already.
        due = self._memory.points if cut_short and not self._memory.border else None
        self._points = self._points_of_stage if due is None else due

        def loss_of(model: nn.Module, batch: Any) -> Tensor:
            network.terms = {}
            loss = loss_function(model, batch)
            if watched:
                self._terms.add(network.terms)
            return loss

        def progress(now: TrainingProgress) -> bool:
            if watched and now.share * self.settings.curve_points >= self._points + 1:
                self._points = int(now.share * self.settings.curve_points)
                self._add_point(network, now.step, now.seconds, now.share)
            self._shown = max(self._shown, self._share_of_whole(now, settings))
            facts = {"step": now.step, "tokens": now.tokens, "share": self._shown, "loss": now.loss}
            self._report({**facts, **self._last_error()})
            return self._best is None or not self._best.enough

        # The selection had ended this stage before the interruption.
        if snapshot is not None and self._best is not None and self._best.enough:
            result = result_at(snapshot)
        else:
            result = train(
                network,
                settings,
                batch_at=batch_of,
                tokens_per_step=settings.batch_size * self.tokens_per_sample,
                seed=self.seed,
                loss_function=loss_of,
                uniform_loss=network.uniform_loss,
                resume=snapshot,
                # Inside a segment the parameters are those of the snapshot; at a border an edit may have changed them.
                changed=not cut_short or self._memory.border,
                until=until,
                until_share=until_share,
                report=progress,
                checkpoint=None
                if self.pool is None or replicas.rank()
                else lambda snapshot: self._checkpoint(network, snapshot),
                precision=self.precision,
                factors=factors,
                flops_per_step=self.flops_per_step,
                memory_bytes=self.settings.memory_bytes,
            )
        if result.state == "stopped":
            result = replace(result, state="finished")  # nothing but the selection stops a training
        elif watched and result.state == "finished" and self._last_point() < self._steps + result.steps:
            self._add_point(network, result.steps, result.seconds, 1.0)
        if self._best is not None and result.state == "finished":
            self._best.restore(network)
        if result.state == "paused" and self.pool is not None and self.terms.share < 1 and not replicas.rank():
            # Before the stage counts as ended: whoever goes on from here is in the middle of it.
            self.snapshot = self.save(network, self.pool, result.snapshot)
        kept = {name: getattr(result, name) for name in FinishedStage.model_fields if name != "flops"}
        flops = (result.steps - self._steps_of_segments) * self.flops_per_step
        self._border = (result.snapshot, time.monotonic()) if result.state == "paused" else None
        self._end(FinishedStage(**kept, flops=flops))
        return result

    @property
    def recalls(self) -> bool:
        """Whether the next stage (or segment) had begun before an interruption.

        Its weights then come with the checkpoint: changes of weights alone may be left out before it.
        """
        return self._kept is not None and len(self._ended) <= self._memory.stage

    def carry(self, origins: Origins) -> None:
        """Record between two segments the origins of parameters whose names or rows an edit moved.

        Parameters that are not in ``origins`` start without moments. Edits that follow each other are recorded one by
        one.
        """
        if self._border is not None:
            snapshot, since = self._border
            shapes = {name: _shape(values) for name, values in snapshot.optimizer.items()}
            self._border = replace(snapshot, optimizer=carry_state(snapshot.optimizer, shapes, origins)), since
            self._best = None  # weights of one name and shape may be those of another part now

    def branch(self) -> Branch:
        """The position between two segments, from which several networks can be trained on.

        Its FLOPs are those that have been spent so far.
        """
        assert self._border is not None, "a segment has paused"
        snapshot, since = self._border
        flops = self._flops_of_segments + self.spent - self._spent_before
        cursor = snapshot.cursor.model_copy(update={"flops": flops})
        return Branch(replace(snapshot, cursor=cursor), since, self._best)

    def go_on(self, branch: Branch | None, result: TrainingResult | None, flops: float) -> None:
        """Make what was trained from a branch the next segment; again after an interruption, where it is known.

        Args:
            branch: Where it began: the branch of the network that goes on. None where the segment is known.
            result: Its result; None with the branch.
            flops: FLOPs of its steps.
        """
        stage = len(self._ended)
        if stage < self._memory.stage:
            self._end(self._memory.ended[stage])
            return
        assert branch is not None, "nothing is known of it"
        assert result is not None, "it was trained"
        own = result.seconds - branch.snapshot.cursor.seconds
        self._border = (result.snapshot, branch.since + own)
        self._best = branch.best
        selected = self._selections.pop(str(stage - 1), None)
        if selected is not None:
            self._selections[str(stage)] = selected
        kept = {name: getattr(result, name) for name in FinishedStage.model_fields if name not in ("flops", "state")}
        self._end(FinishedStage(**kept, state="paused", flops=flops))

    def back_to(self, branch: Branch) -> None:
        """Forget the changes of the network since a branch: the next segment begins there."""
        self._border = (branch.snapshot, branch.since)
        self._best = branch.best

    def select_anew(self) -> None:
        """Forget the best weights until now, between two segments: they were of another stage of the work."""
        self._best = None
        self._selections.pop(str(len(self._ended) - 1), None)

    def spend(self, name: str, flops: float) -> None:
        """Put work beside training steps on the account (probes, distillation); a name counts once, as it was last.

        It counts against a budget in FLOPs when the next segment begins, and not against that of a later stage.
        """
        self._spent[name] = flops

    @property
    def spent(self) -> float:
        """FLOPs beside training steps so far."""
        return math.fsum(self._spent.values())

    def record_event(self, kind: str, name: str, payload: Mapping[str, Any], **live: Any) -> None:
        """Have the run record an event of this kind; once, whatever interruptions there are.

        It is sent where the next segment begins, or at the end; with a budget in seconds, once a checkpoint holds its
        cause, which would otherwise occur a second time.

        Args:
            kind: kind of the event.
            name: name of the event in this evaluation.
            payload: JSON.
            live: values for a progress display, by name.
        """
        self._unsent.append({"event": {"type": kind, "name": name, "payload": dict(payload)}, **live})

    def tell(self, words: str) -> None:
        """Send a line to a progress display at once; it is not recorded.

        Left out where it was told before an interruption: the next stage had begun then.
        """
        if not self.recalls:
            self._report({"growth": {"told": words}})

    def report_end(self, result: TrainingResult) -> None:
        """Report that the whole training has ended, where the last report was of a step before or of a budget that
        holds no whole number of steps."""
        if self._shown < 1.0:
            self._shown = 1.0
            facts = {"step": result.steps, "tokens": result.tokens, "share": 1.0}
            loss = result.snapshot.cursor.last_loss
            self._report({**facts, **({} if loss is None else {"loss": loss}), **self._last_error()})

    def flush(self) -> None:
        """Send the waiting events, where no further segment comes."""
        for message in self._unsent:
            self._report(message)
        self._unsent = []

    def measure(
        self,
        network: Network,
        split: Split = "validation",
        *,
        samples: int | None = None,
        task: SampleTask | None = None,
    ) -> NetworkMeasurement:
        """The network on samples of a split."""
        source = task or self.task
        return measure(
            network,
            source,
            split,
            places(source, split, samples),
            batch_size=max(32, self.training.batch_size),
            precision=self.precision,
        )

    # For the evaluation

    @property
    def series(self) -> dict[str, list[tuple[float, float]]]:
        """The validation curve, over steps of all stages."""
        return self._series

    @property
    def facts(self) -> dict[str, Any]:
        """Results of ``once`` by name."""
        return self._facts

    @property
    def flops(self) -> float:
        """FLOPs of all steps of all stages that have ended, and of other work beside them."""
        return math.fsum((*(ended.flops for ended in self._ended), *self._spent.values()))

    @property
    def num_stages(self) -> int:
        """Number of stages that have ended, each with all its segments."""
        return len(self._whole)

    @property
    def steps(self) -> int:
        """Number of steps of all stages that have ended."""
        return sum(ended.steps for ended in self._whole)

    @property
    def samples(self) -> int:
        """Trained on in all stages that have ended, repetitions counted."""
        return sum(ended.tokens for ended in self._whole)

    @property
    def used_seconds(self) -> float:
        """Seconds of all stages that have ended, measurements included: these count against a budget."""
        return math.fsum(ended.seconds for ended in self._whole)

    @property
    def selections(self) -> list[dict[str, Any]]:
        """Selection of each stage whose weights were selected: metric, its best value, the step, whether it was stopped
        early."""
        return [
            {"stage": int(stage), **state.model_dump(mode="json", exclude={"since", "weights"})}
            for stage, state in self._selections.items()
        ]

    @property
    def seconds(self) -> float:
        """Seconds of training alone, in all stages that have ended."""
        return self.used_seconds - self._paused

    def save(
        self, network: Network, pool: BlobPool, snapshot: TrainingSnapshot | None = None, *, border: bool = False
    ) -> tuple[str, list[str]]:
        """The digest of a checkpoint, and of each blob that it is made of: blobs without a holder are garbage.

        ``border``: it lies between two segments, where a network may have gained parameters without moments.
        """
        described = self.describe(network)
        if snapshot is not None:
            described["input_specification"]["memory"] = self._remembered(border)
        digest = checkpoints.save(pool, network, snapshot=snapshot, **described)
        return digest, checkpoints.load(pool, digest).manifest.digests()

    def describe(self, network: Network) -> dict[str, Any]:
        """A checkpoint's facts about the network: arguments of ``checkpoints.save``."""
        return {
            "genome": NetworkEnvelope(network=specification_of(self.arm.network, network)).model_dump(mode="json"),
            "input_specification": {**specification(self.task, self.settings, self.arm), **network.state_extras()},
        }

    # Within

    @property
    def _whole(self) -> list[FinishedStage]:
        """One result for each stage: segments that another one goes on from are in its numbers."""
        return [stage for stage in self._ended[:-1] if stage.state != "paused"] + self._ended[-1:]

    @cached_property
    def _curve_places(self) -> NDArray[np.int64]:
        return places(self.task, "validation", self.settings.curve_samples)

    @property
    def _flops_of_segments(self) -> float:
        """The same in FLOPs, without what was spent beside them."""
        ended = [stage.state != "paused" for stage in self._ended]
        begin = max((place + 1 for place, over in enumerate(ended) if over), default=0)
        return math.fsum(stage.flops for stage in self._ended[begin:])

    @property
    def _steps_of_segments(self) -> int:
        """Number of steps in the ended segments of the current stage."""
        last = self._ended[-1] if self._ended else None
        return last.steps if last is not None and last.state == "paused" else 0

    def _cross_border(self, network: Network) -> TrainingSnapshot | None:
        """The snapshot of the segment before; the time since then counts against the budget, but not as training.

        Where an event in between would not come again, a checkpoint keeps it before it is sent.
        """
        if self._border is None:
            self.flush()  # known from before an interruption
            return None
        snapshot, since = self._border
        waited = time.monotonic() - since
        self._border = None
        self._paused += waited
        flops = self._flops_of_segments + self.spent - self._spent_before
        used = {"seconds": snapshot.cursor.seconds + waited, "flops": flops}
        snapshot = replace(snapshot, cursor=snapshot.cursor.model_copy(update=used))
        # What the clock decided comes otherwise a second time; all else comes again as it was, and needs no checkpoint.
        if self._unsent and self.pool is not None and self.training.budget.seconds is not None:
            self._checkpoint(network, snapshot, border=True)
        self.flush()
        return snapshot

    def _count_flops(self, network: Network, batch_of: Callable[[int], Batch], *, again: bool) -> None:
        """Count the FLOPs of a step on the first batch; for ``again`` only where the network or its shapes changed."""
        if not self.settings.inspected:
            return
        batch = batch_of(0)
        assert isinstance(batch, Mapping), "the batch is a mapping"
        shapes = {name: list(values.shape) for name, values in batch.items()}
        counted = digest([_counted_as(self.arm.network, network), shapes])
        if again and counted == self._counted:
            return
        first = self.precision.place(batch)
        assert isinstance(first, dict), "and stays one"
        self.flops_per_step = look_at_step(network, first).flops
        self._counted = counted

    @property
    def _points_of_stage(self) -> int:
        """Number of points of the curve in the current stage."""
        return sum(step > self._steps for step, _ in self._series["validation_loss"])

    def _share_of_whole(self, now: TrainingProgress, settings: TrainingSettings) -> float:
        """Share of the whole budget that all stages have used up, with this progress of the present one."""
        over = [stage for stage in self._ended if stage.state != "paused"]
        used = Used(
            steps=self._steps + now.step,
            tokens=sum(stage.tokens for stage in over) + now.tokens,
            seconds=math.fsum((*(stage.seconds for stage in over), *seconds_of_facts(self._facts), now.seconds)),
            flops=self.flops + (now.step - self._steps_of_segments) * self.flops_per_step,
        )
        return share_of_budget(self.training.budget, used, settings.batch_size * self.tokens_per_sample)

    def _last_point(self) -> float:
        points = self._series["validation_loss"]
        return points[-1][0] if points else 0.0

    def _last_error(self) -> dict[str, float]:
        """The last error on validation samples, 0 to 1, for progress; empty where none is known yet."""
        points = self._series["validation_error"]
        return {"validation_error": points[-1][1]} if points and math.isfinite(points[-1][1]) else {}

    def _add_point(self, network: Network, step: int, seconds: float, share: float) -> None:
        """Measure now, after so many steps and seconds of this stage, and that share of its budget."""
        begin = time.monotonic()
        measured = measure(
            network,
            self.task,
            "validation",
            self._curve_places,
            batch_size=max(32, self.training.batch_size),
            precision=self.precision,
        )
        flops = self.flops + (step - self._steps_of_segments) * self.flops_per_step
        before = math.fsum(ended.seconds for ended in self._ended if ended.state != "paused") - self._paused
        values = (measured.loss, measured.error, flops, before + seconds)
        whole = self._steps + step
        more = {f"loss/{name}": value for name, value in self._terms.take_means().items()}
        if self._best is not None:
            value = self._best.look(measured, network, step, share)
            assert self._best.state is not None, "looked"
            more[f"validation_{self._best.state.metric}"] = value
            self._selections[str(len(self._ended))] = self._best.state
        for name, value in {**more, **dict(zip(CURVE, values, strict=True))}.items():
            self._series.setdefault(name, []).append((float(whole), value))
        if self.settings.trace_course:
            chosen = self._curve_places[: self.settings.trace_samples]
            trace = network.trace_blob(self.task, "validation", chosen, self.precision)
            if trace is not None:
                self.course[f"course/{whole}"] = trace
        self._paused += time.monotonic() - begin

    def _selection(self, stage: int, network: Network, cut_short: bool) -> BestWeights | None:
        """Selection of the weights of a stage, with its earlier state where the stage is continued."""
        if self.settings.select is None:
            return None
        if not cut_short and self._steps_of_segments and self._best is not None and self._best.fits(network):
            before = self._selections.pop(str(stage - 1), None)
            if before is not None:
                self._selections[str(stage)] = before
            return self._best
        state = self._selections.get(str(stage)) if cut_short else None
        return BestWeights(self.settings.select, state, self.pool)

    def _end(self, ended: FinishedStage) -> None:
        self._ended.append(ended)
        if ended.state != "paused":
            self._steps += ended.steps

    def _recall(self, resume: str | None) -> checkpoints.Checkpoint | None:
        """The checkpoint to go on from; one that is damaged or gone costs its work, not the evaluation."""
        if resume is None or self.pool is None:
            return None
        try:
            kept = checkpoints.load(self.pool, resume)
            read_memory(kept)
            return kept
        except (NotFoundError, StoreDamagedError, UnsafeFileError) as error:
            self._report({"restarted": str(error)})
            return None

    def _restore(self, network: Network) -> TrainingSnapshot | None:
        """The weights and the optimiser of the stage that was cut short."""
        if self._kept is None:
            return None
        # The weights last: where something is damaged, the network must still be as it was.
        snapshot = self._kept.snapshot(network)
        self._kept.restore(network)
        return snapshot

    def _checkpoint(self, network: Network, snapshot: TrainingSnapshot, *, border: bool = False) -> None:
        assert self.pool is not None, "checkpoints are written only where there is one"
        best = None if self._best is None else self._best.keep(self.pool)
        if best is not None and self._best is not None and self._best.state is not None:
            self._selections[str(len(self._ended))] = self._best.state
        digest, parts = self.save(network, self.pool, snapshot, border=border)
        parts = [*parts, *self.held, *([] if best is None else [best])]
        self._report({"checkpoint": digest, "blobs": parts, "tokens": snapshot.cursor.tokens})

    def _remembered(self, border: bool) -> dict[str, Any]:
        memory = Memory(
            stage=len(self._ended),
            border=border,
            ended=tuple(self._ended),
            facts=self._facts,
            state=self.state,
            series={name: tuple(p for p in points if math.isfinite(p[1])) for name, points in self._series.items()},
            terms=self._terms.to_json(),
            points=None if self._points == self._points_of_stage else self._points,
            selections=self._selections,
            paused=self._paused,
            spent=self._spent,
            spent_before=self._spent_before,
            flops_per_step=self.flops_per_step,
            counted=self._counted,
        )
        return memory.model_dump(mode="json")


def _counted_as(began: NetworkSpec, network: Network) -> list[Any]:
    """Properties that a step's FLOPs depend on beside the batch, as plain data: structure, parameters, which of them
    learn, births, and whether given routes are followed."""
    structure = NetworkEnvelope(network=specification_of(began, network)).model_dump(mode="json")
    births = {str(name): bool(factor > 0) for name, factor in getattr(network, "births", {}).items()}
    shapes = {name: [list(one.shape), one.requires_grad] for name, one in network.named_parameters()}
    return [structure, shapes, births, bool(getattr(network, "follows", False))]


def _shape(state: Mapping[str, Any]) -> torch.Size:
    """Shape of a parameter, from its state in an optimiser: moments of its shape, and perhaps a step without one."""
    shapes = (value.shape for value in state.values() if isinstance(value, Tensor))
    return max(shapes, key=len, default=torch.Size())


def train_once(bench: Trainer, options: Mapping[str, Any]) -> Trained:
    """The procedure ``train``: the network in one stage, up to the share of its budget that the terms grant."""
    network = bench.build()
    bench.inherit(network)
    share = bench.terms.share
    return Trained(network, bench.train(network, until_share=None if share == 1 else share))


def specification_of(planned: NetworkSpec, network: Network) -> NetworkSpec:
    """Specification of the trained network: a procedure may have changed the structure that was planned."""
    return planned.model_copy(update={"structure": network.settled()})


def specification(task: SampleTask, settings: NetworkEvaluationSettings, arm: Trial) -> dict[str, Any]:
    """Inputs of a network and the settings that rebuild it: JSON, kept with the weights.

    The inputs are samples, not their features: a rebuilt network has the towers that read them.
    """
    return {
        "modality": "samples",
        "inputs": [asdict(spec) for spec in (task.whole if isinstance(task, FeaturesTask) else task).inputs],
        "outputs": [asdict(spec) for spec in task.outputs],
        "task": settings.task,
        "task_settings": task_settings(settings, arm.task).model_dump(mode="json"),
        "task_key": getattr(task, "key", None),
    }

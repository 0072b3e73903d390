"""The training of one network of a race, in stretches that go on from its own weights and moments."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from evodevo.estimators.automatic.networks.arms import Arm
from evodevo.estimators.automatic.networks.averaging import AveragedWeights
from evodevo.estimators.automatic.networks.judging import Kind, build_arm, logits_of, score_and_loss
from evodevo.estimators.automatic.networks.quantity import squared_error
from evodevo.estimators.automatic.networks.reading import NetworkArrays, NetworkReading
from evodevo.estimators.targets import ANSWER
from evodevo.randomness import generator, integer_seed
from evodevo.tasks.base import OutputSpec
from evodevo.tasks.inputs import Batch
from evodevo.training.loop import TrainingProgress, TrainingSnapshot, model_loss, train
from evodevo.training.precision import Precision
from evodevo.training.settings import Budget, OptimizerSettings, TrainingSettings

POINTS = 12
"""Judgements in a stretch, at least one per epoch, where they are cheap."""
JUDGING_SHARE = 0.1
PATIENCE = 8
"""Judgements without improvement after which a training may end."""


@dataclass(frozen=True)
class RaceData:
    """What all networks of a race share.

    Attributes:
        reading, arrays, output, kind: Inputs of all samples, and the output.
        targets: Of all samples; of a quantity standardised, (samples, 1).
        train: Rows of the training samples.
        judged: Rows of the samples that rank the networks.
        batch_size: Samples of a step.
    """

    reading: NetworkReading
    arrays: NetworkArrays = field(repr=False)
    output: OutputSpec
    kind: Kind
    targets: NDArray[np.generic] = field(repr=False)
    train: NDArray[np.int64] = field(repr=False)
    judged: NDArray[np.int64] = field(repr=False)
    batch_size: int
    precision: Precision

    @property
    def epoch(self) -> int:
        """Steps of an epoch."""
        return max(1, len(self.train) // self.batch_size)


@dataclass
class BestPoint:
    """The best judgement so far: weights, logits (judged, C), score, loss, number of the step."""

    weights: dict[str, Tensor]
    logits: NDArray[np.float64]
    score: float
    loss: float
    step: int


class ArmTraining:
    """A network of a race while it is trained.

    Attributes:
        name: Name in reports.
        arm: What is trained.
        steps, seconds: Of all stretches, judgements included.
        best: The best judgement; None before the first.
        fault: Why it cannot go on; empty where it can.
        finished: Whether it does not go on.
        step_seconds, judge_seconds: Shortest step and judgement so far; infinite before the first.
    """

    def __init__(self, arm: Arm, data: RaceData, seed: int, name: str | None = None) -> None:
        self.name = arm.name if name is None else name
        self.arm = arm
        self.network = build_arm(arm.structure, data.reading, data.output, integer_seed(seed, self.name, "weights"))
        if arm.initial:
            begun = {key: torch.from_numpy(np.array(array)) for key, array in arm.initial.items()}
            self.network.load_state_dict({**self.network.state_dict(), **begun})
        self.steps = 0
        self.seconds = 0.0
        self.best: BestPoint | None = None
        self.fault = ""
        self.finished = False
        self.step_seconds = self.judge_seconds = math.inf
        self._data = data
        self._seed = integer_seed(seed, self.name, "steps")
        self._snapshot: TrainingSnapshot | None = None
        self._average: AveragedWeights | None = None
        self._order: tuple[int, NDArray[np.int64]] | None = None
        self._judged_at = 0
        self._failures = 0

    @property
    def loss(self) -> float:
        """Loss of the best judgement; infinite before the first."""
        return math.inf if self.best is None else self.best.loss

    @property
    def most_steps(self) -> int:
        """Steps after which the training ends in any case."""
        return self.arm.epochs * self._data.epoch

    def advance(
        self,
        tell: Callable[[bool], bool],
        *,
        seconds: float | None = None,
        total_seconds: float | None = None,
        steps: int | None = None,
        total_steps: int | None = None,
    ) -> None:
        """One stretch, which ends with a judgement.

        Args:
            tell: Called after every step with whether the network was judged; False ends the stretch.
            seconds, steps: Length of this stretch; whichever is reached first.
            total_seconds, total_steps: Length of the whole training if it goes on to its end, which the learning rate
                follows.
        """
        if self.finished:
            return
        began = self._began = self._judged_time = time.monotonic()
        until = None if steps is None else self.steps + steps
        self._every = max(1, min(self._data.epoch, (self.most_steps if steps is None else steps) // POINTS))
        self._seconds = seconds
        most = self.most_steps if total_steps is None else min(self.most_steps, total_steps)
        settings = TrainingSettings(
            budget=Budget(steps=max(most, 1), seconds=total_seconds),
            optimizer=OptimizerSettings(
                learning_rate=self.arm.learning_rate, warmup=0.05, floor=0.02, weight_decay=0.05, beta2=0.99
            ),
            batch_size=self._data.batch_size,
            report_every=1,
        )
        self._step_time = began
        result = train(
            self.network,
            settings,
            batch_at=self._batch,
            tokens_per_step=self._data.batch_size,
            seed=self._seed,
            resume=self._snapshot,
            until=until,
            report=lambda now: self._after_step(now, tell),
            precision=self._data.precision,
            loss_function=squared_error if self._data.kind == "quantity" else model_loss,
        )
        self._snapshot = result.snapshot
        self.steps = result.steps
        if result.state in ("nan", "diverged"):
            self.fault, self.finished = result.reason, True
        elif result.state == "finished":
            self.finished = True
        if self._judged_at < self.steps or self.best is None:
            self._judge()
            tell(True)
        self.seconds += time.monotonic() - began

    def _batch(self, step: int) -> Batch:
        data = self._data
        epoch, place = divmod(step, data.epoch)
        if self._order is None or self._order[0] != epoch:
            self._order = epoch, generator(self._seed, epoch, "order").permutation(len(data.train))
        begin = place * data.batch_size
        rows = data.train[self._order[1][begin : begin + data.batch_size]]
        batch = dict(data.arrays.batch(rows))
        if data.reading.image is not None and self.arm.moves:
            batch["image"] = data.reading.image.shifted(batch["image"], generator(self._seed, step, "shift"))
        batch[f"{ANSWER}/target"] = data.targets[rows]
        return batch

    def _after_step(self, now: TrainingProgress, tell: Callable[[bool], bool]) -> bool:
        self.steps = now.step
        if self._average is None:
            self._average = AveragedWeights(self.network, min(200, self._data.epoch))
        self._average.update()
        after = time.monotonic()
        self.step_seconds = min(self.step_seconds, after - self._step_time)
        judged = self._is_due(after)
        if judged:
            self._judge()
        going = tell(judged) and not self.finished
        self._step_time = time.monotonic()
        return going and (self._seconds is None or self._step_time - self._began < self._seconds)

    def _is_due(self, now: float) -> bool:
        if self.steps - self._judged_at < self._every:
            return False
        if self._seconds is None:
            return True
        # Judgements take a small share of the time; the first one's cost is not known yet.
        waited = now - self._judged_time
        cost = 0.0 if math.isinf(self.judge_seconds) else self.judge_seconds
        return waited >= cost / JUDGING_SHARE and (
            self.steps - self._judged_at >= self._data.epoch or waited >= self._seconds / POINTS
        )

    def _judge(self) -> None:
        data = self._data
        before = time.monotonic()
        average = self._average or AveragedWeights(self.network, 2)
        with average.in_place():
            logits = logits_of(self.network, data.arrays, data.judged, data.precision)
            finite = bool(np.isfinite(logits).all())
            score, loss = score_and_loss(data.kind, logits, data.targets[data.judged]) if finite else (0.0, math.inf)
            better = finite and loss < self.loss
            if better or (finite and self.best is None):
                weights = {name: tensor.detach().clone() for name, tensor in self.network.state_dict().items()}
                self.best = BestPoint(weights, logits, score, loss, self.steps)
        self._failures = 0 if better else self._failures + 1
        self._judged_at = self.steps
        self._judged_time = time.monotonic()
        self.judge_seconds = min(self.judge_seconds, self._judged_time - before)
        if self.best is not None and self._failures >= PATIENCE:
            self.finished = self.steps - self.best.step >= max(3 * self._data.epoch, self.best.step // 2)

    def restore(self) -> None:
        """Load the weights of the best judgement, where there is one; the network is not trained any more."""
        if self.best is not None:
            self.network.load_state_dict(self.best.weights)
        self._snapshot = self._average = None

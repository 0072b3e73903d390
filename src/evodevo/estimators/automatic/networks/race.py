"""A race of networks in a time that is given: successive halving, then the best two to their end.

Legend: n validation samples, C classes or labels.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evodevo.errors import UsageError, unknown_name
from evodevo.estimators.automatic.features.package_root import RootReading
from evodevo.estimators.automatic.networks.arms import Arm, arms_for
from evodevo.estimators.automatic.networks.data import NetworkSamples
from evodevo.estimators.automatic.networks.judging import Kind, logits_of, output_of
from evodevo.estimators.automatic.networks.plan import plan_timed
from evodevo.estimators.automatic.networks.predictor import NetworkFacts, NetworkPredictor
from evodevo.estimators.automatic.networks.quantity import ValueScale
from evodevo.estimators.automatic.networks.reading import NetworkReading
from evodevo.estimators.automatic.networks.training import ArmTraining, RaceData
from evodevo.experiments.racing.plan import left_after, survivors
from evodevo.randomness import generator
from evodevo.training.precision import decide

RACE_SHARE = 0.4
"""Share of the time for the halving; the best two have the rest."""
FINALISTS = 2
FAR_BEHIND = 1.3
"""Ratio to the lowest log-loss of the race from which on the second network is not trained to its end."""
TRIAL_STEPS = 3
TRIAL_SHARE = 0.15
"""Share of the time in which steps of each network are timed; networks that do not get to it are left out."""
MOST_JUDGED = 2000
"""Validation samples that rank networks, where there are more."""
MOST_REPEATS = 4
NEWS_EVERY = 1.0


@dataclass(frozen=True)
class RaceNews:
    """What a race reports.

    Attributes:
        name: Network that is trained now.
        score: Its best share of right validation answers so far; None before it was judged.
        log_loss: Its best log-loss so far in nats, of a quantity its squared error; None before it was judged.
        share: Share of the time that is used, 0 to 1.
    """

    name: str
    score: float | None
    log_loss: float | None
    share: float


@dataclass(frozen=True)
class NetworkResult:
    """What a network of the race came to.

    Attributes:
        name: Name of the network.
        seconds, steps: Length of its training.
        validation: Probabilities of the validation samples by its best weights, (n, C), or values (n, 1).
        note: How its training ended.
        predictor: The network with its best weights.
    """

    name: str
    seconds: float
    steps: int
    validation: NDArray[np.float64] = field(repr=False)
    note: str
    predictor: NetworkPredictor = field(repr=False)


class NetworkRace:
    """A race of networks for one output.

    Args:
        samples: All samples.
        targets: Classes (samples,) as numbers, labels (samples, labels) of 0 and 1, or values (samples,).
        kind: One class per sample, several labels, or a quantity, which plain networks alone learn.
        classes: Number of classes or labels.
        train, validation: Rows of the training and of the validation samples.
        seed: Seed of everything that is drawn.
        device: cpu, cuda, cuda:N, auto.
        arms: Names of the networks that take part; None for all.
        root: A root of the package with which one of them begins; None for none.

    Raises:
        UsageError: No training or validation sample, inputs that no network reads, or no such device.
    """

    def __init__(
        self,
        samples: NetworkSamples,
        targets: NDArray[Any],
        kind: Kind,
        classes: int,
        train: NDArray[np.int64],
        validation: NDArray[np.int64],
        seed: int,
        device: str = "cpu",
        arms: Collection[str] | None = None,
        root: RootReading | None = None,
    ) -> None:
        if not len(train) or not len(validation):
            raise UsageError("a race needs training samples and validation samples.")
        reading = NetworkReading.of(samples.take(train))
        self._validation = validation
        self._seed = seed
        judged = validation
        if len(validation) > MOST_JUDGED:
            judged = np.sort(generator(seed, "judged").choice(validation, MOST_JUDGED, replace=False))
        self._scale = ValueScale.of(targets[train]) if kind == "quantity" else None
        self._data = RaceData(
            reading=reading,
            arrays=reading.read(samples),
            output=output_of(kind, classes),
            kind=kind,
            targets=_targets(targets, kind, self._scale),
            train=train,
            judged=judged,
            batch_size=batch_size(len(train)),
            precision=decide(device),
        )
        every = arms_for(reading, root)
        if kind == "quantity":
            every = [arm for arm in every if arm.structure.zoo is None]
        self.arms: Sequence[Arm] = every if arms is None else [arm for arm in every if arm.name in arms]
        if not self.arms:
            raise unknown_name("network", next(iter(arms or ()), ""), [arm.name for arm in every])

    def run(
        self, seconds: float, report: Callable[[RaceNews], bool | None], max_steps: int | None = None
    ) -> list[NetworkResult]:
        """Train the networks; the results are in the order in which they began.

        Args:
            seconds: Time for everything.
            report: Called after each judgement and about once per second; False ends the race with what there is.
            max_steps: Number of steps of all networks together. With it the clock decides nothing, so that equal
                seeds give equal results.
        """
        course = _Course(self._data, self._seed, report, seconds, max_steps)
        course.race(self.arms)
        raced = {training: note for training, note in course.trainings.items() if training.best}
        # Networks that were timed and had no time to race are no candidates, where there is another.
        enough = {one: note for one, note in raced.items() if max_steps is not None or one.steps > TRIAL_STEPS}
        return [self._result(training, note) for training, note in (enough or raced).items()]

    def _result(self, training: ArmTraining, note: str) -> NetworkResult:
        data = self._data
        training.restore()
        assert training.best is not None
        logits = training.best.logits
        if len(data.judged) < len(self._validation):
            logits = logits_of(training.network, data.arrays, self._validation, data.precision)
        facts = NetworkFacts(
            structure=training.arm.structure,
            reading=data.reading,
            kind=data.kind,
            classes=data.output.size,
            scale=self._scale,
        )
        return NetworkResult(
            name=training.name,
            seconds=training.seconds,
            steps=training.steps,
            validation=facts.answers(logits),
            note=note,
            predictor=NetworkPredictor(facts, training.network),
        )


def _targets(targets: NDArray[Any], kind: Kind, scale: ValueScale | None) -> NDArray[np.generic]:
    if scale is not None:
        return scale.standardised(targets)
    return np.asarray(targets, np.int64 if kind == "class" else np.float32)


def batch_size(samples: int) -> int:
    """Samples of a step: 8 to 64, more where there are many."""
    if samples >= 8192:
        return min(256, samples // 128)
    return min(samples, 64, max(8, samples // 8))


class _Course:
    """One race."""

    def __init__(
        self,
        data: RaceData,
        seed: int,
        report: Callable[[RaceNews], bool | None],
        seconds: float,
        max_steps: int | None,
    ) -> None:
        self.trainings: dict[ArmTraining, str] = {}
        self._data, self._seed, self._report = data, seed, report
        self._began = self._told = time.monotonic()
        self._seconds = seconds
        self._max_steps = max_steps
        self._budget = float(seconds if max_steps is None else max_steps)
        self._stopped = False

    def race(self, arms: Sequence[Arm]) -> None:
        """Halving, then the best to their end, then further seeds of them."""
        begun = self._timed(arms)
        costs = [training.step_seconds if self._max_steps is None else 1.0 for training in begun]
        judging = [training.judge_seconds if self._max_steps is None else 0.0 for training in begun]
        budget = self._left() if self._max_steps is None else self._budget
        plan = plan_timed(costs, judging, max(budget * RACE_SHARE, 0.0))
        for place, training in enumerate(begun):
            if place not in plan.arms:
                self.trainings[training] = f"timed for {training.steps} steps; there was no time for it"
        chosen = [begun[place] for place in plan.arms]
        final = budget * (1 - RACE_SHARE) / min(FINALISTS, len(chosen))
        whole = plan.amount * plan.rungs + final
        for rung in range(1, plan.rungs + 1):
            for training in chosen:
                self._go_on(training, plan.amount, whole)
            keep = left_after(len(chosen)) if rung < plan.rungs else FINALISTS
            kept = survivors([training.loss if training.best else None for training in chosen], keep)
            for place, training in enumerate(chosen):
                if place not in kept:
                    self.trainings[training] = training.fault or f"stopped after rung {rung} of {plan.rungs}"
            chosen = [chosen[place] for place in kept]
        chosen.sort(key=lambda training: training.loss)
        behind = [training for training in chosen[1:] if training.loss > FAR_BEHIND * chosen[0].loss]
        for training in behind:
            self.trainings[training] = training.fault or "far behind the best"
        chosen = [training for training in chosen if training not in behind]
        for place, training in enumerate(chosen):
            amount = self._left() / (len(chosen) - place)
            self._go_on(training, amount, self._used_by(training) + amount)
            self.trainings[training] = training.fault or ("trained to its end" if training.finished else "time is up")
        self._repeat(chosen)

    def _timed(self, arms: Sequence[Arm]) -> list[ArmTraining]:
        """The first steps of each network, which show what a step costs; without a clock, the networks alone."""
        begun: list[ArmTraining] = []
        for arm in arms:
            if len(begun) > 1 and (self._stopped or self._used() > TRIAL_SHARE * self._budget):
                break
            training = ArmTraining(arm, self._data, self._seed)
            begun.append(training)
            self.trainings[training] = ""
            if self._max_steps is None:
                training.advance(self._tell(training), steps=TRIAL_STEPS)
        return begun

    def _repeat(self, finalists: Sequence[ArmTraining]) -> None:
        """The same networks with other seeds, while there is time for one that is worth it."""
        for number in range(MOST_REPEATS if self._max_steps is None and finalists else 0):
            first = finalists[number % len(finalists)]
            if self._stopped or first.fault or self._left() < first.seconds / 2:
                return
            again = ArmTraining(
                first.arm, self._data, self._seed, f"{first.name} (seed {number // len(finalists) + 2})"
            )
            left = self._left()
            self.trainings[again] = ""
            self._go_on(again, left, left)
            self.trainings[again] = again.fault or ("trained to its end" if again.finished else "time is up")

    def _go_on(self, training: ArmTraining, amount: float, whole: float) -> None:
        if self._stopped:
            self.trainings[training] = "the race was ended"
            return
        tell = self._tell(training)
        if self._max_steps is None:
            amount = min(amount, self._left())
            if amount > 0:
                training.advance(tell, seconds=amount, total_seconds=whole)
        elif amount >= 1:
            training.advance(tell, steps=math.floor(amount), total_steps=math.ceil(whole))

    def _tell(self, training: ArmTraining) -> Callable[[bool], bool]:
        def tell(judged: bool) -> bool:
            now = time.monotonic()
            if judged or now - self._told >= NEWS_EVERY:
                self._told = now
                best = training.best
                share = min(1.0, self._used() / self._budget)
                score, loss = (None, None) if best is None else (best.score, best.loss)
                news = RaceNews(training.name, score, loss, share)
                self._stopped = self._stopped or self._report(news) is False
            return not self._stopped

        return tell

    def _used(self) -> float:
        if self._max_steps is not None:
            return float(sum(training.steps for training in self.trainings))
        return time.monotonic() - self._began

    def _used_by(self, training: ArmTraining) -> float:
        return training.seconds if self._max_steps is None else float(training.steps)

    def _left(self) -> float:
        """What is left, after the judgements of all validation samples."""
        whole = 0.0
        if self._max_steps is None and len(self._data.judged) == MOST_JUDGED:
            whole = sum(training.judge_seconds for training in self.trainings if training.best)
        return self._budget - self._used() - whole

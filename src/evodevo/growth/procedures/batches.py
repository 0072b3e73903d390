"""The batches of a growing training: random samples, and after an edit also some that were trained on before."""

from __future__ import annotations

from collections.abc import Iterable

from evodevo.experiments.racing.race import batches_from
from evodevo.experiments.trainer import Trainer
from evodevo.growth.forks.sides import Batches
from evodevo.growth.procedures.samples import GrowthSamples
from evodevo.growth.spec import ReplaySettings
from evodevo.growth.training.replay import ReplayedBatches, SampleReplay, with_replay
from evodevo.randomness import integer_seed
from evodevo.training.loop import LossFunction, model_loss

REPLAY = "replay"
"""Name of the memory of samples in the trainer's state."""


class GrowthBatches:
    """The batches of one run.

    Args:
        bench: Trainer of the procedure.
        samples: Samples of the run.
        replay: Settings of the replay.
        first: Number of the batch of step 0: earlier ones have been trained on.
        weight: Weight of the loss on replayed samples.
    """

    def __init__(
        self, bench: Trainer, samples: GrowthSamples, replay: ReplaySettings, *, first: int, weight: float
    ) -> None:
        self.bench = bench
        self.samples = samples
        self.first = first
        self.weight = weight
        self._replayed: ReplayedBatches | None = None
        if replay.capacity and replay.steps and weight:
            state = bench.state.setdefault(REPLAY, {})
            memory = SampleReplay(replay.capacity, seed=integer_seed(bench.seed, "replay"), state=state)
            size, steps = bench.training.batch_size, replay.steps
            self._replayed = ReplayedBatches(samples.task, memory, seed=bench.seed, size=size, steps=steps, first=first)

    @property
    def replays(self) -> bool:
        """Whether there is a replay."""
        return self._replayed is not None

    @property
    def trained(self) -> Batches:
        """Batch by number of the step, replayed samples included."""
        return self._replayed or self.plain

    @property
    def plain(self) -> Batches:
        """The same without replayed samples."""
        return batches_from(self.bench, self.samples.task, self.first)

    @property
    def loss(self) -> LossFunction:
        """The loss of a batch, replayed samples included."""
        return model_loss if self._replayed is None else with_replay(self.weight)

    def shift(self) -> None:
        """From here on they are of the samples as they are now."""
        if self._replayed is not None:
            self._replayed.task = self.samples.task

    def edited(self, step: int, steps: int) -> None:
        """Replay in so many steps after an edit at this one."""
        if self._replayed is not None:
            self._replayed.edited(step, steps)

    def seen(self, steps: Iterable[int]) -> None:
        """Remember the samples of steps that were made apart: they have been trained on, and may come again."""
        if self._replayed is not None:
            for step in steps:
                self._replayed(step)

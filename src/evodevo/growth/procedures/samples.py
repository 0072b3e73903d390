"""The samples that a growing training reads: those of the task, before and after a shift of its data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from evodevo.experiments.measure import places
from evodevo.experiments.trainer import Trainer
from evodevo.growth.shifts.spec import ShiftSettings
from evodevo.growth.shifts.stream import data_before, new_words
from evodevo.networks.base import Batch
from evodevo.randomness import integer_seed
from evodevo.tasks.held.back import with_architecture_split

PROBED_AT_ONCE = 64


class GrowthSamples:
    """The samples of one run.

    Args:
        bench: Trainer of the procedure.
        shift: Settings of the shift.

    Attributes:
        task: The data as they are now, with the split ``architecture``.
    """

    def __init__(self, bench: Trainer, shift: ShiftSettings) -> None:
        self.bench = bench
        self._settings = shift
        self._shifted = with_architecture_split(bench.task)
        self.task = data_before(self._shifted, shift)
        self._probed: dict[int, list[Batch]] = {}

    def shift(self) -> None:
        """From here on every batch and every judgement is of the new data."""
        self.task = self._shifted
        self._probed = {}

    @property
    def new(self) -> str:
        """What appears at the shift, in words."""
        return new_words(self._shifted, self._settings)

    def probed(self, samples: int) -> Sequence[Batch]:
        """Samples of the split ``architecture``; equal numbers give equal samples."""
        if samples not in self._probed:
            chosen = places(self.task, "architecture", samples)
            parts = np.array_split(chosen, max(1, -(-len(chosen) // PROBED_AT_ONCE)))
            self._probed = {samples: [self._placed(self.task.fetch("architecture", part)) for part in parts]}
        return self._probed[samples]

    def lesson(self, number: int) -> Any:
        """Batch of training samples by which a removed module is distilled into the others."""
        seed = integer_seed(self.bench.seed, "lessons")
        return self.task.batch("train", seed, number, self.bench.training.batch_size)

    def first_batch(self) -> Batch:
        """A training batch on the network's device, by which latencies are measured."""
        return self._placed(self.task.batch("train", self.bench.seed, 0, self.bench.training.batch_size))

    def _placed(self, batch: Any) -> Batch:
        placed = self.bench.precision.place(batch)
        assert isinstance(placed, dict), "the batch is a mapping"
        return placed

"""Plain models on the features of a frozen pretrained tower.

Legend: n samples.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from evodevo.errors import DataError, EvodevoError, UsageError
from evodevo.estimators.automatic.candidates.base import (
    PREDICTORS,
    Arrays,
    FitCandidate,
    LabelledSamples,
    Limit,
    ProbabilityModel,
    Reading,
)
from evodevo.estimators.automatic.features.package_root import WEIGHTS, RootFacts, RootReading
from evodevo.estimators.automatic.features.towers import TowerReading
from evodevo.settings import Settings, validate
from evodevo.tasks.rows.samples import Samples

FIRST_SECONDS, FIRST_SAMPLES = 2.0, 256
"""Seconds and samples of reading after which the time for all samples is extrapolated; a process may halt meanwhile."""


class _TowerFacts(Settings):
    tower: TowerReading | RootFacts
    form: str
    facts: dict[str, Any]


class TowerPredictor(ProbabilityModel):
    """A plain model behind a tower.

    Args:
        tower: The tower.
        inner: Model of the samples with its features.
    """

    form = "tower"

    def __init__(self, tower: TowerReading | RootReading, inner: ProbabilityModel) -> None:
        self.tower, self.inner = tower, inner

    def probabilities(self, samples: Samples) -> NDArray[np.float64]:
        return self.inner.probabilities(self.tower.read(samples))

    def to_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        facts, arrays = self.inner.to_state()
        tower, weights = self.tower.to_state()
        return {"tower": tower, "form": self.inner.form, "facts": facts}, {**arrays, **weights}

    def source(self, facts: dict[str, Any], files: dict[str, str | Path]) -> dict[str, Any]:
        from evodevo.estimators.automatic.source.root_program import written_root
        from evodevo.estimators.automatic.source.written_tower import written_tower

        inner = self.inner.source(facts["facts"], files)
        if isinstance(self.tower, RootReading):
            written_root(self.tower.structure, files)  # the facts stay, so that evodevo can load the export
            return {**facts, "facts": inner}
        return {**facts, "tower": written_tower(self.tower, files), "facts": inner}

    @classmethod
    def from_state(cls, facts: Mapping[str, Any], arrays: Arrays) -> Self:
        known = validate(_TowerFacts, dict(facts), what="a model behind a tower")
        if known.form == cls.form:
            raise UsageError("a model behind a tower is behind one tower.")
        tower = known.tower
        if isinstance(tower, RootFacts):
            weights = {name.removeprefix(WEIGHTS): one for name, one in arrays.items() if name.startswith(WEIGHTS)}
            arrays = {name: one for name, one in arrays.items() if not name.startswith(WEIGHTS)}
            return cls(
                RootReading.from_state(tower, weights), PREDICTORS.get(known.form).from_state(known.facts, arrays)
            )
        return cls(tower, PREDICTORS.get(known.form).from_state(known.facts, arrays))


class NamedTower:
    """A tower of a fit, which all candidates on it share.

    Args:
        reading: The tower, which stays as it is.
        name: Its name in the leaderboard.
    """

    def __init__(self, reading: TowerReading | RootReading, name: str) -> None:
        self.reading, self.name = reading, name
        self._refused = ""

    def read_all(self, samples: Samples, limit: Limit, report: Reading) -> None:
        """Read samples once; they are kept in memory then.

        Raises:
            DataError: It would take longer than the limit, or would have when it was tried before; or a library failed.
        """
        if self._refused:
            raise DataError(self._refused)
        first: tuple[float, int] | None = None

        def progress(done: int, count: int) -> None:
            nonlocal first
            report(self.name, done, count)
            if first is None or done <= first[1]:  # of each column; the time to load the model is no part of the pace
                first = time.monotonic(), done
                return
            spent, read = time.monotonic() - first[0], done - first[1]
            known = spent > FIRST_SECONDS and read >= FIRST_SAMPLES
            if (known or not limit.left) and spent / read * (count - done) > limit.left:
                self._refused = f"{self.name} reads {count:,} samples in about {spent / read * count:.0f} s"
                raise DataError(self._refused)

        try:
            self.reading.read(samples, progress)
        except EvodevoError:
            raise
        except Exception as error:  # whatever a library raises of a user's files: other candidates are there
            self._refused = f"{self.name} cannot be read: {type(error).__name__}: {str(error)[:200]}"
            raise DataError(self._refused) from error


class OnTower(FitCandidate):
    """A plain candidate that reads a tower's features.

    Args:
        tower: The tower.
        inner: The candidate.
    """

    def __init__(self, tower: NamedTower, inner: FitCandidate) -> None:
        self.tower, self.inner = tower, inner
        self.name = f"{inner.name}, on {tower.name}"

    def prepare(self, lesson: LabelledSamples, limit: Limit, report: Reading) -> None:
        self.tower.read_all(lesson.samples, limit, report)

    def train(
        self, lesson: LabelledSamples, rows: NDArray[np.int64], held: NDArray[np.int64], limit: Limit
    ) -> ProbabilityModel:
        return TowerPredictor(self.tower.reading, self.inner.train(self._read(lesson), rows, held, limit))

    def retrain(
        self, lesson: LabelledSamples, rows: NDArray[np.int64], trained: Sequence[ProbabilityModel], limit: Limit
    ) -> ProbabilityModel:
        inner = [one.inner for one in trained if isinstance(one, TowerPredictor)]
        return TowerPredictor(self.tower.reading, self.inner.retrain(self._read(lesson), rows, inner, limit))

    def _read(self, lesson: LabelledSamples) -> LabelledSamples:
        return replace(lesson, samples=self.tower.reading.read(lesson.samples))

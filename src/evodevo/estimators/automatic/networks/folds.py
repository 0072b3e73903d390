"""Races of networks on the folds of ``evodevo.fit``: all on the first fold, the best of them on the others.

Legend: n held out samples of a fold, C classes or labels.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evodevo.estimators.automatic.candidates.base import LabelledSamples, Limit
from evodevo.estimators.automatic.candidates.network import NetworkRow, inputs
from evodevo.estimators.automatic.features.package_root import RootReading
from evodevo.estimators.automatic.networks.race import NetworkRace
from evodevo.estimators.automatic.scores import log_loss
from evodevo.estimators.automatic.splits import Fold
from evodevo.estimators.automatic.unfinished.record import FitRecord, KeptPart, networks_key
from evodevo.randomness import integer_seed
from evodevo.tasks.rows.targets import Answers

FIRST_FOLD_SHARE = 0.4
"""Fraction of the networks' time for the first of several folds, on which the race decides who trains on the others."""
FINALISTS = 2
Watch = Callable[[int], Callable[[Any], bool | None]]
"""The listener of the race on a fold; see ``NetworkRace.run``."""


class NetworkFolds:
    """Networks on folds within a time.

    Args:
        lesson: Training data.
        folds: Folds that are held out in turn.
        kept: Networks of each fold from an earlier process; None where there are none.
        record: Where the networks of a fold are kept when its race is over.
        limit: Ends the races where it was stopped.
        watch: Listener of the race on a fold.
        loss: By which the networks of the first fold are compared.

    Attributes:
        fault: The error that ended the races; None where there was none.
        chosen: Networks that were to train on further folds; None where there was no further one.
    """

    def __init__(
        self,
        lesson: LabelledSamples,
        folds: Sequence[Fold],
        kept: Mapping[int, Sequence[KeptPart] | None],
        record: FitRecord,
        limit: Limit,
        watch: Watch,
        loss: Callable[[NDArray[np.float64], Answers], float] = log_loss,
    ) -> None:
        self._lesson, self._folds, self._kept = lesson, folds, kept
        self._record, self._limit, self._watch, self._loss = record, limit, watch, loss
        self._given = inputs(lesson.samples, lesson.levels)
        self.fault: Exception | None = None
        self.chosen: list[str] | None = None

    def run(self, seconds: float) -> dict[str, list[KeptPart]]:
        """Name of each network -> its parts, one for each fold that it was trained on."""
        found: dict[str, list[KeptPart]] = {}
        ends = time.monotonic() + seconds
        for number, fold in enumerate(self._folds):
            parts = self._kept[number]
            if parts is None:
                left = len(self._folds) - number
                share = 1.0 if left == 1 else (FIRST_FOLD_SHARE if not number else 1 / left)
                remaining = ends - time.monotonic()
                if remaining <= 0 or self._limit.stopped or self.chosen == []:
                    break
                parts = self._raced(number, fold, remaining * share)
                if parts is None:
                    break
                if not self._limit.stopped:
                    self._record.put(networks_key(number), parts)
            for part in parts:
                found.setdefault(part.name, []).append(part)
            if self.chosen is None and len(self._folds) > 1:
                answers = self._lesson.answers[fold.held]
                order = sorted(parts, key=lambda part: self._loss(part.chances, answers))
                self.chosen = [part.name for part in order[:FINALISTS]]
        return found

    def _raced(self, number: int, fold: Fold, seconds: float) -> list[KeptPart] | None:
        lesson = self._lesson
        try:
            race = NetworkRace(
                self._given,
                lesson.answers,
                lesson.kind,
                lesson.classes,
                fold.train,
                fold.held,
                integer_seed(lesson.seed, "network", number),
                arms=self.chosen,
                root=next((one for one in lesson.towers.values() if isinstance(one, RootReading)), None),
            )
            results = race.run(seconds, self._watch(number))
        except Exception as error:  # whatever a library raises: the plain models are there
            self.fault = error
            return None
        # Further seeds of a network belong to this fold alone.
        own = {arm.name for arm in race.arms}
        return [
            KeptPart(
                result.name, result.seconds, NetworkRow(result.predictor, lesson.levels), result.validation, result.note
            )
            for result in results
            if len(self._folds) == 1 or result.name in own
        ]

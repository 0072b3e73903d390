"""The work of ``evodevo.fit``: candidates on folds within a time, plain ones first, then the race of networks.

Legend: n samples, C classes or labels; of a quantity C is 1, and "probabilities" are values.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evodevo.errors import DataError, EvodevoError
from evodevo.estimators.automatic.candidates.base import FitCandidate, LabelledSamples, Limit, ProbabilityModel
from evodevo.estimators.automatic.candidates.mean import MeanPredictor, mean
from evodevo.estimators.automatic.candidates.plain import plain_candidates
from evodevo.estimators.automatic.scores import METRICS, Metric, log_loss
from evodevo.estimators.automatic.splits import Fold
from evodevo.estimators.automatic.unfinished.record import FitRecord, KeptPart, networks_key
from evodevo.tasks.rows.targets import Answers

PLAIN_SHARE = 0.4
"""Fraction of the time after which no further plain candidate begins where networks follow, to whom the rest goes."""
MOST_OF_PLAIN = 0.4
"""Fraction of the plain candidates' time left that one of them may take, where it can be ended."""
RETRAIN_SHARE = 0.15
"""Largest fraction of the time that is kept for the final trainings on all rows."""
LEAST_NETWORK_SECONDS = 5.0
"""Seconds per fold below which no networks are trained."""
Listener = Callable[[str, dict[str, Any]], None]
"""Receives ``reading`` (images that were read), ``plan``, ``candidate``, ``tower`` (samples that a tower has read),
``network``, ``final``, ``left_out`` and ``damaged`` (a kept part that cannot be read and is trained again) with their
facts, in this thread."""


@dataclass
class TrainedCandidate:
    """A candidate that was judged on the held out samples of all folds.

    Attributes:
        name, kind: Name, and plain or network.
        chances: Probabilities of the held out samples, (n, C), in the order of ``FitSearch.held``.
        models: One model per fold.
        seconds: Training time so far.
        candidate: How it is trained again; None for networks.
        note: Remark.
        prepared: Seconds of it that were for all trainings at once.
        final: The model from all rows, or the mean of the folds'.
    """

    name: str
    kind: str
    chances: NDArray[np.float64]
    models: list[ProbabilityModel]
    seconds: float
    candidate: FitCandidate | None = None
    note: str = ""
    prepared: float = 0.0
    final: ProbabilityModel | None = None


@dataclass
class FitSearch:
    """Candidates on folds.

    Args:
        lesson: Training data.
        folds: Folds that are held out in turn.
        metric: Metric of the ranking.
        limit: When all ends.
        listener: See ``Listener``.
        record: Keeps each candidate that was trained, and has those of earlier processes of this fit.
    """

    lesson: LabelledSamples
    folds: Sequence[Fold]
    metric: Metric
    limit: Limit
    listener: Listener
    record: FitRecord = field(default_factory=FitRecord)
    trained: list[TrainedCandidate] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.held = np.concatenate([fold.held for fold in self.folds])
        self.answers = self.lesson.answers[self.held]
        self.shares = shares_of(self.lesson)
        now = time.monotonic()
        self._began = now - self.record.used
        self._seconds = self.limit.ends - self._began

    def run(self, *, networks: bool) -> None:
        """Train and judge until the time is over; Ctrl-C ends it with the candidates that there are.

        Raises:
            KeyboardInterrupt: There are none yet.
        """
        try:
            self._plain(PLAIN_SHARE if networks and self._is_enough_for_networks() else 1 - RETRAIN_SHARE)
            if networks:
                self._networks()
        except KeyboardInterrupt:
            self._stop()
        if not self.trained:
            raise DataError("no candidate could be trained: " + "; ".join(self.left_out))
        try:
            self._finish()
        except KeyboardInterrupt:
            self._stop()
        for one in self.trained:
            if one.final is None:
                one.final = mean(one.models)

    def best(self) -> TrainedCandidate:
        """The best candidate so far."""
        return min(self.trained, key=lambda one: rank(self.metric, one.chances, self.answers, self.shares))

    def _stop(self) -> None:
        if not self.trained:
            raise KeyboardInterrupt
        self.limit.stopped = True
        self.left_out.append("what had not ended when it was interrupted")

    def _is_enough_for_networks(self) -> bool:
        """Whether networks can be trained on all folds after the plain candidates."""
        return self._seconds * (1 - PLAIN_SHARE - RETRAIN_SHARE) >= LEAST_NETWORK_SECONDS * len(self.folds)

    def _plain(self, share: float) -> None:
        ends = self._began + self._seconds * share
        for candidate in plain_candidates(self.lesson):
            one = self._recalled(candidate)
            if one is None:
                limit = Limit(ends, self.limit.stopped)
                if limit.left <= 0 and self.trained:
                    self._leave_out(f"{candidate.name}: no time")
                    continue
                try:
                    one = self._judge(candidate, limit)
                except (EvodevoError, MemoryError, ValueError) as error:
                    self._leave_out(f"{candidate.name}: {_first_line(error)}")
                    continue
                if one is None:
                    continue
                part = KeptPart(one.name, one.seconds, _together(one.models), one.chances)
                self.record.put(_plain_key(candidate), [part])
            self._add(one)

    def _recalled(self, candidate: FitCandidate) -> TrainedCandidate | None:
        """A plain candidate that an earlier process has trained."""
        (part,) = self._kept(_plain_key(candidate)) or (None,)
        if part is None or not isinstance(part.model, MeanPredictor) or len(part.chances) != len(self.answers):
            return None
        models = list(part.model.parts)
        return TrainedCandidate(candidate.name, "plain", part.chances, models, part.seconds, candidate)

    def _kept(self, key: str) -> Sequence[KeptPart] | None:
        """What an earlier process has kept under a key."""
        found = self.record.get(key)
        if key in self.record.damaged:
            self.listener("damaged", {"key": key})
        return found

    def _judge(self, candidate: FitCandidate, limit: Limit) -> TrainedCandidate | None:
        """Train and judge on all folds; None where that takes too long."""
        prepared = time.monotonic()
        candidate.prepare(self.lesson, limit, self._read)
        began = time.monotonic()
        prepared = began - prepared
        allowed = max(limit.left * MOST_OF_PLAIN, 1.0)
        models, chances = [], []
        for number, fold in enumerate(self.folds):
            left = len(self.folds) - number
            share = max(allowed - (time.monotonic() - began), 0.5) / left
            own = Limit(time.monotonic() + share, limit.stopped)
            models.append(candidate.train(self.lesson, fold.train, fold.held, own))
            chances.append(models[-1].probabilities(self.lesson.samples.take(fold.held)))
            each = (time.monotonic() - began) / (number + 1)
            if left > 1 and each > 2 * share and each * (left - 1) > limit.left and len(self.trained) > 1:
                self._leave_out(f"{candidate.name}: its {len(self.folds)} folds take about {each:.0f} s each")
                return None
        seconds = time.monotonic() - began + prepared
        return TrainedCandidate(
            candidate.name, "plain", np.concatenate(chances), models, seconds, candidate, prepared=prepared
        )

    def _read(self, name: str, done: int, count: int) -> None:
        self.listener("tower", {"name": name, "done": done, "count": count})

    def _add(self, one: TrainedCandidate) -> None:
        self.trained.append(one)
        self.listener("candidate", self.facts(one))

    def facts(self, one: TrainedCandidate) -> dict[str, Any]:
        """A candidate's scores for those who watch."""
        decided = self.metric.decide(one.chances, self.shares)
        best = self.best()
        leading = self.metric.decide(best.chances, self.shares)
        loss = "rmse" if self.metric.kind == "quantity" else "log_loss"
        return {
            "name": one.name,
            "kind": one.kind,
            "score": self.metric.score(decided, self.answers),
            loss: (METRICS["r2"].loss if loss == "rmse" else log_loss)(one.chances, self.answers),
            "seconds": one.seconds,
            "leader": best.name,
            "leader_score": self.metric.score(leading, self.answers),
        }

    def _leave_out(self, reason: str) -> None:
        self.left_out.append(reason)
        self.listener("left_out", {"reason": reason})

    def _networks(self) -> None:
        retraining = sum((one.seconds - one.prepared) / len(self.folds) for one in self.trained) * 1.3
        seconds = self.limit.left - min(retraining, self._seconds * RETRAIN_SHARE)
        kept = {number: self._kept(networks_key(number)) for number in range(len(self.folds))}
        needed = LEAST_NETWORK_SECONDS * sum(parts is None for parts in kept.values())
        if seconds < needed:
            self._leave_out(f"networks: {max(0.0, seconds):.0f} s are left, {needed:.0f} are needed")
            return
        try:
            from evodevo.estimators.automatic.networks.folds import NetworkFolds

            races = NetworkFolds(self.lesson, self.folds, kept, self.record, self.limit, self._watch, self.metric.loss)
        except Exception as error:  # whatever a library raises: the plain models are there
            self._leave_out(f"networks: {_first_line(error)}")
            return
        found = races.run(max(0.0, seconds))
        if races.fault is not None:
            self._leave_out(f"networks: {_first_line(races.fault)}")
            return
        for name, parts in found.items():
            if len(parts) == len(self.folds):
                spent = sum(part.seconds for part in parts)
                models = [part.model for part in parts]
                chances = np.concatenate([part.chances for part in parts])
                self._add(TrainedCandidate(name, "network", chances, models, spent, note=parts[-1].note))
            else:
                behind = races.chosen is not None and name not in races.chosen
                why = "behind on the first" if behind else f"no time for the last {len(self.folds) - len(parts)}"
                self._leave_out(f"{name}: {why} of {len(self.folds)} folds")

    def _watch(self, fold: int) -> Callable[[Any], bool | None]:
        best = self.best()
        score = self.metric.score(self.metric.decide(best.chances, self.shares), self.answers)

        def report(news: Any) -> bool | None:
            facts = {"fold": fold, "folds": len(self.folds), "leader": best.name, "leader_score": score}
            self.listener("network", {**facts, **vars(news)})
            return False if self.limit.stopped else None

        return report

    def _finish(self) -> None:
        """Train again on all rows, best first, as long as there is time."""
        everything = np.arange(self.lesson.samples.count)
        whole = len(everything) / max(1, len(self.folds[0].train))
        order = sorted(self.trained, key=lambda one: rank(self.metric, one.chances, self.answers, self.shares))
        for one in order:
            if one.candidate is None:
                continue
            key = f"final {one.name}"
            (part,) = self._kept(key) or (None,)
            if part is None:
                expected = (one.seconds - one.prepared) / len(self.folds) * whole
                if expected > max(self.limit.left, 1.0):
                    continue
                began = time.monotonic()
                self.listener("final", {"name": one.name})
                model = one.candidate.retrain(self.lesson, everything, one.models, self.limit)
                part = KeptPart(one.name, time.monotonic() - began, model)
                self.record.put(key, [part])
            one.final = part.model
            one.seconds += part.seconds


def _first_line(error: BaseException) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__


def _plain_key(candidate: FitCandidate) -> str:
    return f"plain {candidate.name}"


def _together(models: Sequence[ProbabilityModel]) -> MeanPredictor:
    """The models of the folds as one, of which they are taken out again."""
    return MeanPredictor(models, [1 / len(models)] * len(models))


def rank(
    metric: Metric, chances: NDArray[np.float64], answers: Answers, shares: NDArray[np.float64]
) -> tuple[float, float]:
    """Key by which candidates are ordered: the metric, and the loss where it is equal."""
    score = metric.score(metric.decide(chances, shares), answers)
    return score if metric.lower else -score, metric.loss(chances, answers)


def shares_of(lesson: LabelledSamples) -> NDArray[np.float64]:
    """How frequent each class or label is, (C,); of a quantity (0,)."""
    if lesson.kind == "quantity":
        return np.zeros(0)
    if lesson.kind == "labels":
        means: NDArray[np.float64] = lesson.answers.astype(np.float64).mean(0)
        return means
    counts = np.bincount(lesson.answers.astype(np.int64), minlength=lesson.classes)
    shares: NDArray[np.float64] = counts / counts.sum()
    return shares

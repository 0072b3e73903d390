"""Plain models beside a zoo: trained on the same samples, judged on the same held out ones.

Legend: n samples, C classes or labels.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from evodevo import canonical
from evodevo.errors import DataError, EvodevoError, UsageError
from evodevo.estimators.automatic.candidates.base import (
    PREDICTORS,
    FitCandidate,
    LabelledSamples,
    Limit,
    ProbabilityModel,
)
from evodevo.estimators.automatic.candidates.plain import plain_candidates
from evodevo.estimators.automatic.scores import difference, log_loss, metric_of
from evodevo.estimators.reading import IMAGE, TEXT, VECTORS, Columns, InputReading, texts_of, vectors_of
from evodevo.tasks.rows.samples import Samples

ZOO = "zoo"
LARGEST_CHANCE = 0.025
"""Largest p-value of a better plain model: with few samples an interval over resamples is too short."""
FILES = FACTS, ARRAYS = "plain.json", "plain.safetensors"
MOST_BYTES = 64 << 20


@dataclass
class PlainModels:
    """Plain models on the training samples of a classifier.

    Attributes:
        lesson: All samples.
        held: Rows of the held out samples.
        trained: Candidate, model and probabilities of the held out samples (n, C), by name.
        left_out: Reason, by name, of those that could not be trained.
    """

    lesson: LabelledSamples
    held: NDArray[np.int64]
    trained: dict[str, tuple[FitCandidate, ProbabilityModel, NDArray[np.float64]]]
    left_out: dict[str, str]

    @classmethod
    def of(
        cls, lesson: LabelledSamples, train: NDArray[np.int64], held: NDArray[np.int64], seconds: float | None
    ) -> PlainModels:
        """Train them, cheap ones first.

        Args:
            lesson: All samples.
            train, held: Rows of the training and of the held out samples.
            seconds: Seconds after which no further one begins; None for no limit.
        """
        found = cls(lesson, held, {}, {})
        limit = Limit(math.inf if seconds is None else time.monotonic() + seconds)
        samples = lesson.samples.take(held)
        for candidate in plain_candidates(lesson):
            if limit.left <= 0:
                found.left_out[candidate.name] = "no time"
                continue
            try:
                model = candidate.train(lesson, train, held, limit)
            except (EvodevoError, MemoryError, ValueError) as error:
                found.left_out[candidate.name] = str(error)[:200]
            else:
                found.trained[candidate.name] = candidate, model, model.probabilities(samples)
        return found

    def compared(self, zoo: NDArray[np.float64]) -> dict[str, Any] | None:
        """The best of them beside a zoo with these probabilities of the held out samples; see ``Classifier``."""
        if not self.trained:
            return None
        metric, answers = metric_of(None, self.lesson.kind), self.lesson.answers[self.held]
        shares = np.ones(self.lesson.classes)
        chances = {ZOO: zoo, **{name: one[2] for name, one in self.trained.items()}}
        decided = {name: metric.decide(own, shares) for name, own in chances.items()}
        scores = {name: metric.score(own, answers) for name, own in decided.items()}
        best = min(self.trained, key=lambda name: (-scores[name], log_loss(chances[name], answers), name))
        # Of equally many right answers those of the network that was asked for.
        first = min(chances, key=lambda name: (-scores[name], name != ZOO, log_loss(chances[name], answers), name))
        lead = difference(metric, decided[best], decided[ZOO], answers)
        chance = _sign_test(decided[best] == answers, decided[ZOO] == answers)
        return {
            "metric": metric.name,
            "held": len(answers),
            "scores": scores,
            "left_out": dict(self.left_out),
            "best": first,
            "best_plain": best,
            "lead": lead.value,
            "lead_low": lead.low,
            "lead_high": lead.high,
            "p_value": chance,
            "better": lead.low > 0 and chance < LARGEST_CHANCE,
        }

    def final(self, name: str) -> ProbabilityModel:
        """This model from all samples."""
        candidate, model, _ = self.trained[name]
        everything = np.arange(self.lesson.samples.count)
        return candidate.retrain(self.lesson, everything, [model], Limit(math.inf))


def _sign_test(one: NDArray[np.bool_], other: NDArray[np.bool_]) -> float:
    """p-value of the exact one-sided sign test (McNemar) that one is right more often than the other."""
    from scipy.stats import binomtest

    wins, losses = int((one & ~other).sum()), int((other & ~one).sum())
    return float(binomtest(wins, wins + losses, alternative="greater").pvalue) if wins + losses else 1.0


def sentence(found: Mapping[str, Any], chosen: str) -> str:
    """A comparison in words: which model is best and which answers, the noise, and the score of every other."""
    first, scores = found["best"], found["scores"]
    answers = "it answers" if chosen == first else "the zoo answers"
    interval = f"{found['lead']:+.4f}, 95 % interval {found['lead_low']:+.4f} to {found['lead_high']:+.4f}"
    noise = "more than noise" if found["better"] else "no more than noise"
    others = sorted((name for name in scores if name != first), key=lambda name: (-scores[name], name))
    left = "".join(f"; left out: {name} ({reason})" for name, reason in found["left_out"].items())
    return (
        f"best on {found['held']:,} held out samples: {first}, {found['metric']} {scores[first]:.4f}; {answers}. "
        f"{found['best_plain']} minus zoo: {interval}, sign test p = {found['p_value']:.2g}, {noise}. "
        f"Others: {', '.join(f'{name} {scores[name]:.4f}' for name in others)}{left}."
    )


def plain_samples(columns: Columns, reading: InputReading) -> Samples:
    """The samples of a classifier as plain models read them; inputs that are not there are missing in all."""
    batch = reading.read(columns)
    count = len(next(iter(batch.values())))
    numbers = np.zeros((count, 0))
    if reading.mean is not None:
        given = columns.get(VECTORS)
        numbers = np.full((count, len(reading.mean)), np.nan) if given is None else vectors_of(given)
    texts = () if reading.words is None else (tuple(texts_of(columns.get(TEXT, [""] * count))),)
    images: tuple[NDArray[np.uint8], ...] = ()
    present: tuple[NDArray[np.bool_], ...] = ()
    if reading.image is not None:
        images = (batch[IMAGE],)
        present = (np.asarray(batch.get(f"{IMAGE}/present", np.ones(count, np.bool_))),)
    return Samples(count, numbers, np.zeros((count, 0), np.int64), texts, images, present)


def labelled(
    samples: Samples, answers: NDArray[Any], kind: Literal["class", "labels"], classes: int, seed: int
) -> LabelledSamples:
    """Training data of plain models."""
    return LabelledSamples(samples, answers, kind, classes, (), seed)


def to_files(model: ProbabilityModel) -> dict[str, bytes]:
    """The files of a model, by name."""
    from safetensors.numpy import save

    facts, arrays = model.to_state()
    contents = canonical.dumps({"form": model.form, "facts": facts})
    return {
        FACTS: contents.encode(),
        ARRAYS: save({name: np.asarray(array, order="C") for name, array in arrays.items()}),
    }


def of_files(files: Mapping[str, bytes]) -> ProbabilityModel | None:
    """The model of these files; None where there is none.

    Raises:
        UsageError: They hold something else.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load

    if FACTS not in files and ARRAYS not in files:
        return None
    try:
        kept = canonical.loads(files[FACTS], what=FACTS, max_bytes=MOST_BYTES)
        return PREDICTORS.get(kept["form"]).from_state(kept["facts"], dict(load(files[ARRAYS])))
    except (SafetensorError, DataError, KeyError, TypeError, ValueError) as error:
        raise UsageError(f"{FACTS} and {ARRAYS} hold no plain model: {error}") from None

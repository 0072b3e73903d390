"""The decision of a fork, from the loss of each sample under each of its trainings.

Legend: S samples, M other orders of the batches.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evodevo.growth.forks.interval import gain_of, noise_variance, scatter
from evodevo.growth.forks.records import ForkGain, ForkRecord

Losses = NDArray[np.float64]
"""(S,) loss of each sample in nats; NaN without a target."""
NO_GAIN = "its gain is {:+.4f} nats, and the interval begins at {:+.4f}, not above 0"
NOT_TRAINED = "with it the training diverged"


@dataclass(frozen=True)
class ForkLosses:
    """The losses of one fork on the samples that choose; None for a training that ended early or diverged.

    Attributes:
        edited, without: Losses with the edits and without them.
        others: Losses without them, in each other order.
        others_edited: Losses with them, in each other order; empty where they are not trained so.
    """

    edited: Losses | None
    without: Losses | None
    others: Sequence[Losses | None] = ()
    others_edited: Sequence[Losses | None] = ()

    @property
    def pairs(self) -> list[tuple[Losses, Losses]]:
        """Losses without and with the edits in each order in which both could be trained."""
        return [
            (without, edited)
            for without, edited in self._orders
            if without is not None and edited is not None and None not in (mean_of(without), mean_of(edited))
        ]

    @property
    def fails(self) -> bool:
        """Whether the side with the edits could not be trained in an order in which the other one could."""
        return any(mean_of(edited) is None and mean_of(without) is not None for without, edited in self._orders)

    @property
    def _orders(self) -> list[tuple[Losses | None, Losses | None]]:
        others = zip(self.others, self.others_edited, strict=True) if self.others_edited else ()
        return [(self.without, self.edited), *others]


@dataclass(frozen=True)
class Noise:
    """What two trainings differ by without any edit, from all forks so far.

    Attributes:
        scatter: Sum of squares of this fork alone.
        freedom: Degrees of freedom of all.
        variance: Variance of one difference; 0 where it was not measured.
    """

    scatter: float
    freedom: int
    variance: float


def noise_of(judged: ForkLosses, tried: Sequence[ForkRecord], *, paired: bool) -> Noise:
    """The noise by the order of batches: of the difference of both sides in one order, or in orders of their own."""
    if paired:
        gains = [float(np.nanmean(without - edited)) for without, edited in judged.pairs]
    else:
        gains = [mean for loss in (judged.without, *judged.others) if (mean := mean_of(loss)) is not None]
    scattered = scatter(gains)
    freedom = max(0, len(gains) - 1) + sum(fork.freedom for fork in tried[-1:])
    squares = scattered + sum(fork.scatter for fork in tried)
    # Squares of differences, or of single trainings, of which a difference has two.
    variance = squares / max(freedom, 1) if paired else noise_variance(squares, freedom)
    return Noise(scattered, freedom, variance)


def decided(
    record: ForkRecord, judged: ForkLosses, tried: Sequence[ForkRecord], level: float, *, paired: bool
) -> ForkRecord:
    """The record with losses, noise, the gain that chose, and the decision.

    Args:
        record: The fork so far.
        judged: Losses on the samples that choose.
        tried: Forks before.
        level: Level of the one-sided interval.
        paired: Whether both sides were trained in each other order.
    """
    noise = noise_of(judged, tried, paired=paired)
    means = tuple(mean_of(loss) for loss in (judged.edited, judged.without, *judged.others))
    update = {
        "losses": means,
        "scatter": noise.scatter,
        "freedom": noise.freedom,
        "noise": noise.variance**0.5 if noise.freedom else None,
    }
    record = record.model_copy(update=update)
    if means[0] is None or judged.fails:
        return record.model_copy(update={"reason": NOT_TRAINED})
    if means[1] is None:
        return record.model_copy(update={"kept": True})
    pairs = judged.pairs if paired else judged.pairs[:1]
    without, edited = (np.mean([pair[side] for pair in pairs], axis=0) for side in (0, 1))
    chose = gain_of(*known(without, edited), noise.variance / len(pairs), noise.freedom, level)
    kept = chose.lower > 0
    gains = tuple(float(np.nanmean(one - other)) for one, other in pairs) if paired else ()
    return record.model_copy(
        update={
            "pairs": gains,
            "chose": chose,
            "kept": kept,
            "reason": "" if kept else NO_GAIN.format(chose.gain, chose.lower),
        }
    )


def published_gain(without: Losses, edited: Losses, record: ForkRecord, level: float) -> ForkGain:
    """The gain of the first order on samples that did not choose, with the noise of the record."""
    return gain_of(*known(without, edited), (record.noise or 0.0) ** 2, record.freedom, level)


def known(without: Losses, edited: Losses) -> tuple[Losses, Losses]:
    """Losses of the samples that have a target."""
    there = ~np.isnan(without)
    return without[there], edited[there]


def mean_of(losses: Losses | None) -> float | None:
    """Mean loss; None where it is not finite, or where there is none."""
    if losses is None:
        return None
    mean = float(np.nanmean(losses))
    return mean if math.isfinite(mean) else None

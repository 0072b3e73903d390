"""Records of forks: plain data, kept with their events."""

from __future__ import annotations

from pydantic import Field

from evodevo.settings import Settings


class ForkGain(Settings):
    """Fall of the mean loss by an edit, in nats, with its interval.

    Attributes:
        gain: Mean over samples of the loss without the edit minus that with it.
        lower, upper: Ends of the one-sided intervals at the level of the settings.
        samples: Number of samples.
        error: Standard error of the gain by the samples alone, in nats; None in records of before.
    """

    gain: float
    lower: float
    upper: float
    samples: int
    error: float | None = Field(default=None, exclude_if=lambda value: value is None)


class ForkRecord(Settings):
    """The outcome of one fork.

    Attributes:
        edits: Edits that were tried, in words.
        steps: Steps with the edits, and without them.
        losses: Mean loss in nats on the samples that chose: with the edits, without them, and then without them in each
            other order of the batches; None where a training ended early.
        pairs: Gain in each order of the batches, where both sides were trained in each (``ForkSettings.paired``).
        chose: The gain that decided; None where a side could not be trained.
        published: The gain on samples that did not choose.
        followed: The gain on the samples of ``published`` after both sides were trained on (``ForkSettings.follow``),
            with the interval of the samples alone; None where they were not.
        noise: Standard deviation of a difference of two trainings by the order of batches alone, in nats, from all
            forks so far: in orders of their own, or in one order where they are paired; None where it was not measured.
        freedom: Number of other orders that it comes from.
        scatter: Sum of squares of this fork alone.
        kept: Whether the edits were kept.
        reason: Why they were not; empty where they were.
        side_flops: FLOPs for which each side trained, at most.
        winner_flops: FLOPs of the steps that were kept.
        spent: All other FLOPs: the loser, other orders, judgements, and what followed.
        seconds: Seconds of it all, where the budget is in seconds; else 0.
        winner_seconds: Those of them in which the steps that were kept were trained.
    """

    edits: tuple[str, ...]
    steps: tuple[int, int] = (0, 0)
    losses: tuple[float | None, ...] = ()
    pairs: tuple[float, ...] = Field(default=(), exclude_if=lambda value: not value)
    chose: ForkGain | None = None
    published: ForkGain | None = None
    followed: ForkGain | None = Field(default=None, exclude_if=lambda value: value is None)
    noise: float | None = None
    freedom: int = Field(default=0, ge=0)
    scatter: float = Field(default=0.0, ge=0)
    kept: bool = False
    reason: str = ""
    side_flops: float = Field(default=0.0, ge=0)
    winner_flops: float = Field(default=0.0, ge=0)
    spent: float = Field(default=0.0, ge=0)
    seconds: float = Field(default=0.0, ge=0, exclude_if=lambda value: not value)
    winner_seconds: float = Field(default=0.0, ge=0, exclude_if=lambda value: not value)

"""What a fork measured of the edits of one event: plain data, kept in the memory of edits."""

from __future__ import annotations

import hashlib
import math
from typing import Any, Self

from pydantic import Field

from evodevo import canonical
from evodevo.growth.forks.records import ForkRecord
from evodevo.settings import Settings

LEARNED = 0.4
"""Rank correlation of foreseen and measured gains, runs held out, above which a strategist is called learned."""


class MeasuredGain(Settings):
    """The gain of the edits of an event against the same training without them, for equal FLOPs.

    Attributes:
        gain: Fall of the mean loss in nats, on all samples of the fork: those that chose and those that did not. A fork
            counts whether it kept its edits or not, so that the choice makes it no better than it is.
        error: Its standard error in nats: that of the paired samples, and the noise of a training as far as the run had
            measured it.
        samples: Number of samples.
        steps: Steps with the edits, and without them.
        side_flops: FLOPs for which each side trained, at most.
        together: Number of actions that were measured together.
        run: Name of what begins and goes equally (``name_of``): its gains are held out together.
        data: Name of the task and its settings; empty in a memory that does not say.
    """

    gain: float
    error: float = Field(ge=0)
    samples: int = Field(ge=2)
    steps: tuple[int, int]
    side_flops: float = Field(ge=0)
    together: int = Field(ge=1)
    run: str = Field(max_length=64)
    data: str = Field(default="", max_length=64, exclude_if=lambda value: not value)

    @classmethod
    def of(cls, fork: ForkRecord, together: int, run: str, data: str = "") -> Self | None:
        """The gain that a fork measured; None where a side could not be trained, or there was no fork.

        Args:
            fork: Record of the fork.
            together: Number of actions that led to its edits.
            run, data: Names of the run and of its data.
        """
        parts = [gain for gain in (fork.chose, fork.published) if gain is not None]
        if not parts or any(gain.error is None for gain in parts):
            return None
        count = sum(gain.samples for gain in parts)
        sampling = sum((gain.samples / count * (gain.error or 0.0)) ** 2 for gain in parts)
        return cls(
            gain=sum(gain.samples / count * gain.gain for gain in parts),
            error=math.sqrt(sampling + (fork.noise or 0.0) ** 2),
            samples=count,
            steps=fork.steps,
            side_flops=fork.side_flops,
            together=together,
            run=run,
            data=data,
        )


def name_of(**what: Any) -> str:
    """A name that is equal for what is equal: 16 hexadecimal digits of all that is given."""
    return hashlib.sha256(canonical.dumps(what).encode()).hexdigest()[:16]

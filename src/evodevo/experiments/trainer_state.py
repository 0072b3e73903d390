"""What a bench remembers over an interruption: plain data, kept with every checkpoint."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from evodevo.errors import UnsafeFileError, UsageError
from evodevo.settings import Settings, validate
from evodevo.training import checkpoints
from evodevo.training.loop import Cursor, TrainingResult, TrainingSnapshot

Points = tuple[tuple[float, float], ...]


class FinishedStage(Settings):
    """What is kept of a stage that has ended: all of its result but the weights.

    Of a stage in segments each segment is kept, with what was used since the stage began; ``flops`` are its own.
    """

    state: Literal["finished", "paused", "stopped", "diverged", "nan"]
    steps: int
    tokens: int
    seconds: float
    curve: tuple[tuple[int, float], ...]
    final_loss: float | None
    reason: str
    flops: float = 0.0


class SelectionState(Settings):
    """How a selection of weights stands.

    Attributes:
        metric: that is compared.
        instead: why it is not the metric that was wanted; empty where it is.
        best: its best value so far; None before the first.
        loss: when that was measured; where values are equal, the lower loss is better.
        step: of the stage, at which that was measured.
        since: measurements after it.
        weights: blob of the weights of that step; None where they are in memory alone.
        stopped: step at which the stage was stopped early; None where it was not.
    """

    metric: str
    instead: str = ""
    best: float | None = None
    loss: float | None = None
    step: int = 0
    since: int = 0
    weights: str | None = Field(default=None, pattern=r"^[0-9a-f]{64}$")
    stopped: int | None = None


class Memory(Settings):
    """What a checkpoint keeps beside network and optimiser.

    Attributes:
        stage: that was being trained, counted from 0.
        border: it stood before the first step of a segment, whose network may have new parameters.
        ended: results of the stages before.
        facts: what ``once`` gave.
        state: of the procedure, while it trains (``Bench.state``).
        series: the curves so far.
        terms: sums of the loss terms since the last point of the curve, and of how many steps.
        selections: stage -> how its selection stands or stood.
        paused: seconds of measurements and between segments, which count as no training.
        spent: FLOPs of other work than training steps, by name (``Bench.spend``).
    """

    stage: int = 0
    border: bool = False
    ended: tuple[FinishedStage, ...] = ()
    facts: dict[str, Any] = Field(default_factory=dict)
    state: dict[str, Any] = Field(default_factory=dict)
    series: dict[str, Points] = Field(default_factory=dict)
    terms: dict[str, tuple[float, int]] = Field(default_factory=dict)
    selections: dict[str, SelectionState] = Field(default_factory=dict)
    paused: float = 0.0
    spent: dict[str, float] = Field(default_factory=dict)


def read_memory(kept: checkpoints.Checkpoint) -> Memory:
    """What a checkpoint of a bench remembers.

    Raises:
        UnsafeFileError: it is none of a bench.
    """
    try:
        return validate(Memory, kept.manifest.input["memory"], what="the checkpoint's memory")
    except (UsageError, LookupError, TypeError) as error:
        raise UnsafeFileError(f"not a checkpoint of a network's training: {error}") from None


def result_of(ended: FinishedStage) -> TrainingResult:
    """What ``Bench.train`` answers for a stage that had ended before the interruption."""
    snapshot = TrainingSnapshot(Cursor(seed=0, step=ended.steps, tokens=ended.tokens, seconds=ended.seconds), {})
    values = {name: getattr(ended, name) for name in FinishedStage.model_fields if name != "flops"}
    return TrainingResult(**values, snapshot=snapshot)


def result_at(snapshot: TrainingSnapshot) -> TrainingResult:
    """The same for a stage that was stopped early, just before the interruption."""
    cursor = snapshot.cursor
    return TrainingResult(
        state="finished",
        steps=cursor.step,
        tokens=cursor.tokens,
        seconds=cursor.seconds,
        curve=cursor.curve.complete(cursor.tokens),
        final_loss=cursor.smoothed_loss,
        reason="",
        snapshot=snapshot,
    )

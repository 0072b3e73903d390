"""The state of a bench over an interruption: plain data, kept with every checkpoint."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from evodevo.errors import UnsafeFileError, UsageError
from evodevo.settings import Settings, validate
from evodevo.training import checkpoints
from evodevo.training.loop import Cursor, TrainingResult, TrainingSnapshot

Points = tuple[tuple[float, float], ...]


class FinishedStage(Settings):
    """The result of a stage that has ended, without the weights.

    For a stage in segments each segment is kept, with the totals since the stage began; ``flops`` are its own.
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
    """The state of a selection of weights.

    Attributes:
        metric: metric that is compared.
        instead: reason why it is not the requested metric; empty where it is.
        best: its best value so far; None before the first.
        loss: loss at that measurement; where values are equal, the lower loss is better.
        step: step of the stage at that measurement.
        since: number of measurements after it.
        weights: digest of the blob with the weights of that step; None where they are in memory alone.
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
    """The data of a checkpoint beside network and optimiser.

    Attributes:
        stage: number of the stage that was being trained, from 0.
        border: whether the next step is the first of a segment, whose network may have new parameters.
        ended: results of the stages before.
        facts: results of ``once``.
        state: state of the procedure, while it trains (``Bench.state``).
        series: the curves so far.
        terms: sums of the loss terms since the last point of the curve, and the number of these steps.
        points: number of points of the curve that are due no more, where it is not that of the points in it: what
            trains without a curve in between leaves out some. None where it is.
        selections: stage -> state of its selection.
        paused: seconds of measurements and between segments, which count as no training.
        spent: FLOPs of other work than training steps, by name (``Bench.spend``).
        spent_before: their sum when the stage began.
        flops_per_step: FLOPs of a step as they were counted last; 0 where they were not. Which layers run may depend on
            weights, so that they are not counted again where a training goes on.
        counted: digest of what was counted.
    """

    stage: int = 0
    border: bool = False
    ended: tuple[FinishedStage, ...] = ()
    facts: dict[str, Any] = Field(default_factory=dict)
    state: dict[str, Any] = Field(default_factory=dict)
    series: dict[str, Points] = Field(default_factory=dict)
    terms: dict[str, tuple[float, int]] = Field(default_factory=dict)
    points: int | None = Field(default=None, exclude_if=lambda value: value is None)
    selections: dict[str, SelectionState] = Field(default_factory=dict)
    paused: float = 0.0
    spent: dict[str, float] = Field(default_factory=dict)
    spent_before: float = 0.0
    flops_per_step: float = 0.0
    counted: str = ""


def read_memory(kept: checkpoints.Checkpoint) -> Memory:
    """The bench's data in a checkpoint.

    Raises:
        UnsafeFileError: it is none of a bench.
    """
    try:
        return validate(Memory, kept.manifest.input["memory"], what="the checkpoint's memory")
    except (UsageError, LookupError, TypeError) as error:
        raise UnsafeFileError(f"not a checkpoint of a network's training: {error}") from None


def result_of(ended: FinishedStage) -> TrainingResult:
    """Result of ``Bench.train`` for a stage that had ended before the interruption."""
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

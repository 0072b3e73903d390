"""The training loop: trains a network in place within a budget, and reports curve, faults and a resumable snapshot.

The batch of step k and every random draw inside it are functions of (seed, k) alone, so that a run that was stopped and
resumed equals the one that never stopped, bit for bit. The same holds for training in segments (``until``), between
which a network may change: the learning rate follows the schedule of the whole budget. Read ``train`` from top to
bottom.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from evodevo.errors import UsageError
from evodevo.randomness import integer_seed
from evodevo.settings import Settings
from evodevo.training import optimizers, replicas
from evodevo.training.economy import economise
from evodevo.training.precision import Batch, Precision, decide
from evodevo.training.settings import Budget, TrainingSettings

State = Literal["finished", "paused", "stopped", "diverged", "nan"]
LossFunction = Callable[[nn.Module, Any], Tensor]

MAX_CURVE_POINTS = 256
_SMOOTHING = 0.9  # the smoothed loss is an average over about ten steps
_CUDA_CHECK_EVERY = 16  # steps between two reads of the losses, each of which waits for the device


class LossCurve(Settings):
    """Mean losses over equal intervals of steps; the interval doubles whenever there are too many points.

    Args:
        points: (tokens at the end of the interval, mean loss in the interval in nats).
        stride: Number of steps in an interval.
        pending: Losses of the interval that is not full yet.
    """

    points: tuple[tuple[int, float], ...] = ()
    stride: int = Field(default=1, ge=1)
    pending: tuple[float, ...] = ()

    def add(self, tokens: int, loss: float) -> LossCurve:
        """The curve with one more step."""
        # model_construct below skips pydantic's validation, which would otherwise run at every step.
        pending = (*self.pending, loss)
        if len(pending) < self.stride:
            return LossCurve.model_construct(points=self.points, stride=self.stride, pending=pending)
        points = (*self.points, (tokens, math.fsum(pending) / len(pending)))
        if len(points) < MAX_CURVE_POINTS:
            return LossCurve.model_construct(points=points, stride=self.stride, pending=())
        pairs = zip(points[::2], points[1::2], strict=True)
        halved = tuple((late[0], (early[1] + late[1]) / 2) for early, late in pairs)
        return LossCurve.model_construct(points=halved, stride=2 * self.stride, pending=())

    def complete(self, tokens: int) -> tuple[tuple[int, float], ...]:
        """The points, and one more for the interval that is not full."""
        return (*self.points, (tokens, math.fsum(self.pending) / len(self.pending))) if self.pending else self.points


class Cursor(Settings):
    """Progress of a training: with the weights and the optimiser's state, all that a resume needs. JSON-able."""

    seed: int
    step: int = Field(default=0, ge=0)
    tokens: int = Field(default=0, ge=0)
    seconds: float = Field(default=0.0, ge=0)
    flops: float = Field(default=0.0, ge=0)
    last_loss: float | None = None
    smoothed_loss: float | None = None
    curve: LossCurve = LossCurve()


@dataclass(frozen=True)
class TrainingSnapshot:
    """State of a training between two steps, without the model's weights.

    Args:
        cursor: Progress of the training.
        optimizer: Moments and step by parameter name; the optimiser's own tensors, not copies, so that they have to be
            written before the next step.
    """

    cursor: Cursor
    optimizer: dict[str, dict[str, Tensor]]


@dataclass(frozen=True)
class TrainingProgress:
    """Measurements after a step; ``share`` is the used fraction of the budget, 0 to 1."""

    step: int
    tokens: int
    seconds: float
    loss: float
    share: float


@dataclass(frozen=True)
class TrainingResult:
    """The result of a training.

    Args:
        state: "finished"; "paused" at ``until``; "stopped" by the caller; "diverged" or "nan", which are reported and
            not raised.
        steps: Number of steps, resumed parts included.
        tokens: Number of predicted tokens, resumed parts included.
        seconds: Wall-clock seconds, resumed parts included.
        curve: At most 256 points (tokens, mean loss in nats).
        final_loss: Smoothed training loss in nats; None if no loss was finite.
        reason: One sentence for "diverged" and "nan", else empty.
        snapshot: State that a checkpoint holds beside the weights.
    """

    state: State
    steps: int
    tokens: int
    seconds: float
    curve: tuple[tuple[int, float], ...]
    final_loss: float | None
    reason: str
    snapshot: TrainingSnapshot


def model_loss(model: nn.Module, batch: Any) -> Tensor:
    """The model's own loss ``model.loss(batch)``, a scalar in nats."""
    return model.loss(batch)  # type: ignore[operator, no-any-return]


def train(
    model: nn.Module,
    settings: TrainingSettings,
    *,
    batch_at: Callable[[int], Batch],
    tokens_per_step: int,
    seed: int,
    loss_function: LossFunction = model_loss,
    uniform_loss: float | None = None,
    resume: TrainingSnapshot | None = None,
    changed: bool = False,
    until: int | None = None,
    until_share: float | None = None,
    report: Callable[[TrainingProgress], bool | None] | None = None,
    checkpoint: Callable[[TrainingSnapshot], None] | None = None,
    precision: Precision | None = None,
    factors: Mapping[str, float] | None = None,
    flops_per_step: float = 0.0,
    memory_bytes: int | None = None,
) -> TrainingResult:
    """Train a model in place.

    Args:
        model: Model, initialised by the caller (or restored, with ``resume``); it is moved to the device. Its method
            ``set_progress``, if any, is called before each step with the share of the budget used after that step;
            its method ``observe``, if any, after each step. ``learning_rates``: see ``optimizers.build``.
        settings: Budget, optimiser, device.
        batch_at: Function of the step k alone that returns its batch, an array or named arrays.
        tokens_per_step: Number of predicted tokens in one batch.
        seed: Seed of all draws in a forward (dropout).
        loss_function: (model, batch on the device) -> scalar loss in nats.
        uniform_loss: Loss of a uniform guess, ln(vocabulary); None = only a non-finite loss ends the training.
        resume: Snapshot that belongs to the model's weights.
        changed: Whether the model may have lost and gained parameters since the snapshot: new ones start without
            moments, moments of removed ones are dropped, all others are unchanged to the bit.
        until: Number of steps of the whole training, resumed parts included, after which to pause.
        until_share: Share of the budget, 0 to 1; the training pauses before the first step at which it is used up.
        report: Function called every ``report_every`` steps; returning False stops the training at a checkpoint.
        checkpoint: Function called every ``checkpoint_every`` steps and at a stop.
        precision: Device and number format; None = those of the settings.
        factors: Factors of learning rates, see ``optimizers.build``.
        flops_per_step: FLOPs of one step, counted against a budget in FLOPs and summed in the cursor.
        memory_bytes: Limit of the memory that ``settings.checkpointing=auto`` keeps to; None = what is free.

    Raises:
        UsageError: The budget is below one batch or step, the snapshot has another seed, all parameters are frozen,
            the device does not exist, or the model lacks what a setting turns on.
    """
    replicas.check(settings)
    precision = precision or decide(settings.device, settings.precision)
    model.to(precision.device).train()
    economise(
        model,
        settings,
        lambda: precision.place(_split(batch_at(0), settings.batch_size)[0]),
        lambda batch: loss_function(model, batch),
        precision,
        memory_bytes,
    )
    optimizer = optimizers.build(model, settings.optimizer, factors)
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    total_steps = _total_steps(settings.budget, tokens_per_step)
    cursor = Cursor(seed=seed)
    if resume is not None:
        if resume.cursor.seed != seed:
            raise UsageError(f"this checkpoint was trained with seed {resume.cursor.seed}, not {seed}.")
        optimizers.load_state(model, optimizer, resume.optimizer, changed=changed)
        cursor = resume.cursor
    account = _Account(cursor, settings, tokens_per_step, uniform_loss, total_steps, flops_per_step)
    devices = [precision.device] if precision.device.type == "cuda" else []
    state: State = "finished"
    tell_progress = getattr(model, "set_progress", None)
    observe = getattr(model, "observe", None)

    # The caller's generators are restored afterwards, since every step seeds the global ones.
    with torch.random.fork_rng(devices), precision.products():
        while not account.used_up():
            if account.reached(until, until_share):
                state = "paused"
                break
            # Samples of other replicas are dropped otherwise; the first draws as a plain training does.
            what_for = f"forward/{replicas.rank()}" if replicas.rank() else "forward"
            _seed(precision.device, integer_seed(seed, account.step, what_for))
            share = account.share_after_this_step()
            rate = settings.optimizer.rate_at(account.step, account.total_steps, share)
            optimizers.set_learning_rate(optimizer, rate)

            if tell_progress is not None:
                tell_progress(share)
            own = _share(batch_at(account.step)) if settings.replicas > 1 else batch_at(account.step)
            loss = _add_gradients(model, own, settings.parts, loss_function, precision)
            loss = replicas.average_gradients(parameters, loss)
            norm = optimizer.clip(parameters, settings.optimizer.clip)

            # Before optimizer.step: on the CPU a fault leaves the last good weights in place.
            fault = account.add(loss, norm, share)
            if fault is not None:
                state = fault
                break
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            if observe is not None:
                observe()

            report_due = account.step % settings.report_every == 0
            checkpoint_due = settings.checkpoint_every is not None and account.step % settings.checkpoint_every == 0
            if report_due or checkpoint_due:
                fault = account.look()
                if fault is not None:
                    state = fault
                    break
            if report is not None and report_due and report(account.progress(share)) is False:
                state = "stopped"
            if checkpoint is not None and (checkpoint_due or state == "stopped"):
                checkpoint(TrainingSnapshot(account.cursor(), optimizers.state_by_name(model, optimizer)))
            if state == "stopped":
                break

    optimizer.zero_grad(set_to_none=True)
    if state in ("finished", "paused"):
        state = account.look() or state
    return account.result(state, TrainingSnapshot(account.cursor(), optimizers.state_by_name(model, optimizer)))


def _add_gradients(
    model: nn.Module, batch: Batch, parts: int, loss_function: LossFunction, precision: Precision
) -> Tensor:
    """Add the gradients of a batch to the parameters', part by part; the mean loss."""
    losses = []
    for part in [batch] if parts == 1 else _split(batch, parts):
        with precision.autocast():
            loss = loss_function(model, precision.place(part))
        (loss / parts).backward()  # type: ignore[no-untyped-call]
        losses.append(loss)
    return losses[0] if parts == 1 else torch.stack([loss.detach() for loss in losses]).mean()


def _split(batch: Batch, parts: int) -> list[Any]:
    """Equal parts of the samples, in order."""
    if isinstance(batch, Mapping):
        pieces = {name: _split(values, parts) for name, values in batch.items()}
        return [{name: values[part] for name, values in pieces.items()} for part in range(parts)]
    size = len(batch) // parts
    return [batch[part * size : (part + 1) * size] for part in range(parts)]


def _share(batch: Batch) -> Any:
    """The samples of this replica."""
    if isinstance(batch, Mapping):
        return {name: _share(values) for name, values in batch.items()}
    return batch[replicas.share_of(len(batch))]


def _seed(device: torch.device, seed: int) -> None:
    """Seed the generators that a forward on this device draws from."""
    # Not torch.manual_seed: where CUDA is not initialised it formats a traceback at every call, which costs more than
    # a small batch.
    torch.default_generator.manual_seed(seed)
    if device.type == "cuda":
        with torch.cuda.device(device):
            torch.cuda.manual_seed(seed)


def _total_steps(budget: Budget, tokens_per_step: int) -> int | None:
    """Number of steps that the limits on tokens and steps allow; None where the budget has neither."""
    limits = []
    if budget.steps is not None:
        limits.append(budget.steps)
    if budget.tokens is not None:
        if budget.tokens < tokens_per_step:
            raise UsageError(
                f"a budget of {budget.tokens:,} tokens is less than one batch of {tokens_per_step:,}. "
                "Raise the budget or make the batch smaller."
            )
        limits.append(budget.tokens // tokens_per_step)
    return min(limits, default=None)


class _Account:
    """Counts steps, tokens and seconds, keeps the curve, and detects faults with few waits for the device."""

    def __init__(
        self,
        cursor: Cursor,
        settings: TrainingSettings,
        tokens_per_step: int,
        uniform_loss: float | None,
        total_steps: int | None,
        flops_per_step: float,
    ) -> None:
        if settings.budget.flops is not None and not 0 < flops_per_step <= settings.budget.flops:
            raise UsageError(
                f"a budget of {settings.budget.flops:.3g} FLOPs is less than one step, which takes "
                f"{flops_per_step:.3g}. Raise the budget or make the batch smaller."
            )
        self.step = cursor.step
        self.reason = ""
        self._cursor = cursor
        self._tokens_per_step = tokens_per_step
        self.total_steps = total_steps
        self._seconds_budget = settings.budget.seconds
        self._flops_budget = settings.budget.flops
        self._flops_per_step = flops_per_step
        self._warmup = settings.optimizer.warmup
        self._bound = math.inf if uniform_loss is None else settings.divergence * uniform_loss
        self._began = time.monotonic() - cursor.seconds
        self._last_loss = cursor.last_loss
        self._smoothed = cursor.smoothed_loss
        self._curve = cursor.curve
        self._looked_at = cursor.step
        self._waiting: list[tuple[Tensor, Tensor, float]] = []

    def seconds(self) -> float:
        return time.monotonic() - self._began

    def flops(self, steps: int) -> float:
        """Executed FLOPs after so many steps of the whole training."""
        return self._cursor.flops + (steps - self._cursor.step) * self._flops_per_step

    def used_up(self) -> bool:
        if self.total_steps is not None and self.step >= self.total_steps:
            return True
        # A step that would exceed the budget is not started.
        if self._flops_budget is not None and self.flops(self.step + 1) > self._flops_budget:
            return True
        return self._seconds_budget is not None and self.seconds() >= self._seconds_budget

    def reached(self, step: int | None, share: float | None) -> bool:
        """Whether that many steps are done, or that share of the budget is used up."""
        if step is not None and self.step >= step:
            return True
        if share is None:
            return False
        used = 0.0 if self.total_steps is None else self.step / self.total_steps
        if self._seconds_budget is not None:
            used = max(used, self.seconds() / self._seconds_budget)
        if self._flops_budget is not None:
            used = max(used, self.flops(self.step) / self._flops_budget)
        return used >= share

    def share_after_this_step(self) -> float:
        """Share of the budget used after the current step, 0 to 1, for the limit that is reached first."""
        share = 0.0 if self.total_steps is None else (self.step + 1) / self.total_steps
        if self._seconds_budget is not None:
            elapsed = self.seconds()
            # The duration of the current step is estimated as the mean so far.
            share = max(share, (elapsed + elapsed / max(self.step, 1)) / self._seconds_budget)
        if self._flops_budget is not None:
            share = max(share, self.flops(self.step + 1) / self._flops_budget)
        return min(share, 1.0)

    def add(self, loss: Tensor, norm: Tensor, share: float) -> State | None:
        """Count a step; on the CPU its loss is checked at once, before the weights change."""
        self._waiting.append((loss.detach(), norm, share))
        self.step += 1
        patience = _CUDA_CHECK_EVERY if loss.is_cuda else 1
        return self.look() if len(self._waiting) >= patience else None

    def look(self) -> State | None:
        """Fetch and check the losses that wait on the device; the first fault, or None."""
        if not self._waiting:
            return None
        # One stack and one transfer for all steps: reading each loss alone would wait for the device every time.
        losses = [float(value) for value in torch.stack([loss.float() for loss, _, _ in self._waiting]).tolist()]
        norms = [float(value) for value in torch.stack([norm.float() for _, norm, _ in self._waiting]).tolist()]
        shares = [share for _, _, share in self._waiting]
        self._waiting = []
        for loss, norm, share in zip(losses, norms, shares, strict=True):
            fault = self._judge(loss, norm, share)
            if fault is not None:
                self.step = self._looked_at
                return fault
        return None

    def _judge(self, loss: float, norm: float, share: float) -> State | None:
        if not math.isfinite(loss) or not math.isfinite(norm):
            what = "loss" if not math.isfinite(loss) else "gradient"
            self.reason = f"the {what} of step {self._looked_at + 1} is not finite"
            return "nan"
        self._looked_at += 1
        self._last_loss = loss
        self._smoothed = loss if self._smoothed is None else _SMOOTHING * self._smoothed + (1 - _SMOOTHING) * loss
        self._curve = self._curve.add(self._looked_at * self._tokens_per_step, loss)
        # The loss itself must be high too: after a start far above the bound, the mean stays high for some steps.
        if share > self._warmup and min(loss, self._smoothed) > self._bound:
            self.reason = f"the loss of step {self._looked_at} is {loss:.3f}, over the bound {self._bound:.3f}"
            return "diverged"
        return None

    def progress(self, share: float) -> TrainingProgress:
        assert self._last_loss is not None, "looked at before"
        tokens = self.step * self._tokens_per_step
        return TrainingProgress(self.step, tokens, self.seconds(), self._last_loss, share)

    def cursor(self) -> Cursor:
        return self._cursor.model_copy(
            update={
                "step": self._looked_at,
                "tokens": self._looked_at * self._tokens_per_step,
                "seconds": self.seconds(),
                "flops": self.flops(self._looked_at),
                "last_loss": self._last_loss,
                "smoothed_loss": self._smoothed,
                "curve": self._curve,
            }
        )

    def result(self, state: State, snapshot: TrainingSnapshot) -> TrainingResult:
        cursor = snapshot.cursor
        return TrainingResult(
            state=state,
            steps=cursor.step,
            tokens=cursor.tokens,
            seconds=cursor.seconds,
            curve=cursor.curve.complete(cursor.tokens),
            final_loss=cursor.smoothed_loss,
            reason=self.reason,
            snapshot=snapshot,
        )

"""The settings of a training run; free of torch, so that the command line and the recipes can check them quickly."""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal, Self

from pydantic import Field, GetCoreSchemaHandler, GetPydanticSchema, model_validator
from pydantic_core import core_schema

from evodevo.errors import UsageError
from evodevo.settings import Settings


class Budget(Settings):
    """The limits of a training, which ends when the first of those given is reached."""

    tokens: int | None = Field(
        default=None, gt=0, description="number of predicted tokens; only whole batches are trained"
    )
    steps: int | None = Field(default=None, gt=0, description="number of optimiser steps")
    seconds: float | None = Field(
        default=None,
        gt=0,
        description="wall-clock seconds, measurements between steps included; not repeatable bit for bit",
    )
    flops: float | None = Field(
        default=None, gt=0, description="executed FLOPs of forward and backward passes, and of growth"
    )

    @model_validator(mode="after")
    def _one_is_given(self) -> Self:
        if self.tokens is None and self.steps is None and self.seconds is None and self.flops is None:
            raise ValueError("a budget needs at least one of tokens, steps, seconds, flops")
        return self

    def part(self, share: float, tokens_per_step: int = 1) -> Self:
        """The budget with every limit multiplied by a share in (0, 1], rounded down, but at least one step."""
        values = {
            "tokens": None if self.tokens is None else max(tokens_per_step, int(self.tokens * share)),
            "steps": None if self.steps is None else max(1, int(self.steps * share)),
            "seconds": None if self.seconds is None else self.seconds * share,
            "flops": None if self.flops is None else self.flops * share,
        }
        return self.model_copy(update=values)


class OptimizerSettings(Settings):
    """AdamW with linear warm-up and cosine decay, which may begin anew in the middle of the budget."""

    learning_rate: float = Field(default=3e-3, gt=0, description="highest learning rate, at the end of the warm-up")
    warmup: float = Field(default=0.1, ge=0, lt=1, description="share of the budget in which the rate rises linearly")
    floor: float = Field(default=0.1, ge=0, le=1, description="last learning rate as a share of the highest, 0 to 1")
    weight_decay: float = Field(
        default=0.1, ge=0, description="weight decay of matrices; vectors and scalars have none"
    )
    clip: float = Field(
        default=1.0, gt=0, description="largest norm of all gradients together; longer gradients are scaled down"
    )
    beta1: float = Field(default=0.9, ge=0, lt=1, description="decay of the first moment per step")
    beta2: float = Field(default=0.95, ge=0, lt=1, description="decay of the second moment per step")
    restarts: tuple[Annotated[float, Field(gt=0, lt=1)], ...] = Field(
        default=(),
        strict=False,  # a list, where ``_either`` has read JSON
        exclude_if=lambda value: not value,
        description="shares of the budget after which the rate is the highest again, and falls until the end",
    )

    def rate_at(self, step: int, steps: int | None, share: float) -> float:
        """The learning rate of a step.

        Args:
            step: Number of the step, from 0.
            steps: Number of steps of the whole training; None where the budget leaves it open.
            share: Share of the budget used after the step, 0 to 1.
        """
        begun = [restart for restart in self.restarts if restart <= share]
        if share < self.warmup and not begun:
            return self.learning_rate * (share / self.warmup)
        begin = max(begun, default=self.warmup)
        descent = min(1.0, (share - begin) / (1.0 - begin))
        return self.learning_rate * (self.floor + (1.0 - self.floor) * 0.5 * (1.0 + math.cos(math.pi * descent)))


class MomentumSettings(Settings):
    """Stochastic gradient descent with momentum, without dampening and weight decay (docs/spec/munet.md#training)."""

    learning_rate: float = Field(default=0.02, gt=0, description="highest learning rate")
    schedule: Literal["cosine", "constant", "linear", "restarts"] = Field(
        default="cosine",
        description="after the warm-up: half a cosine to 0, linearly to a thousandth, one cosine per interval; or "
        "constantly half of the highest rate",
    )
    interval: int = Field(default=1, ge=1, description="number of steps of one cosine of restarts")
    warmup: float = Field(
        default=0.02, ge=0, lt=1, description="share of the steps in which the rate rises linearly from a thousandth"
    )
    momentum: float = Field(default=0.8, ge=0, lt=1, description="decay of the sum of gradients per step")
    nesterov: bool = Field(default=True, description="whether a step looks ahead along the sum of gradients")
    trace_format: Literal["float32", "bfloat16"] = Field(
        default="float32", description="number format of the stored sum of gradients; bfloat16 takes half the memory"
    )
    clip: float = Field(
        default=1.0, gt=0, description="largest norm of all gradients together; longer gradients are scaled down"
    )

    def rate_at(self, step: int, steps: int | None, share: float) -> float:
        """The learning rate of a step; see ``OptimizerSettings.rate_at``.

        Raises:
            UsageError: The budget leaves the number of steps open.
        """
        if self.schedule == "constant":
            return 0.5 * self.learning_rate
        if self.schedule == "restarts":
            step, steps = step % self.interval, self.interval
        if steps is None:
            raise UsageError("the schedule of momentum counts steps; give a budget in steps or tokens.")
        lowest = self.learning_rate * 1e-3
        warmup = int(self.warmup * steps)
        if step < warmup:
            return lowest + (self.learning_rate - lowest) * step / warmup
        descent = (step - warmup) / (steps - warmup)
        if self.schedule == "linear":
            return self.learning_rate + (lowest - self.learning_rate) * descent
        return self.learning_rate * 0.5 * (1 + math.cos(math.pi * descent))


def restarted(training: TrainingSettings, share: float) -> TrainingSettings:
    """The training whose learning rate is the highest again after this share of its budget.

    Raises:
        UsageError: Its optimiser has no restarts.
    """
    optimizer = training.optimizer
    if not isinstance(optimizer, OptimizerSettings):
        raise UsageError("only AdamW's learning rate begins anew; momentum has a schedule of its own.")
    if not 0 < share < 1:
        return training
    anew = optimizer.model_copy(update={"restarts": (*optimizer.restarts, share)})
    return training.model_copy(update={"optimizer": anew})


def _either(source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
    """Data are read as AdamW, since no checkpoint holds the state of another optimiser; code may give momentum."""
    return core_schema.no_info_wrap_validator_function(
        lambda value, adamw: value if isinstance(value, MomentumSettings) else adamw(value),
        handler.generate_schema(OptimizerSettings),
        serialization=core_schema.simple_ser_schema("any"),
    )


class TrainingSettings(Settings):
    """One training run."""

    budget: Budget
    optimizer: Annotated[OptimizerSettings | MomentumSettings, GetPydanticSchema(_either)] = OptimizerSettings()
    batch_size: int = Field(default=8, ge=1, le=2**16, description="number of samples in one step")
    parts: int = Field(
        default=1,
        ge=1,
        le=2**16,
        description="number of equal parts of a step's samples that are computed one after the other, to save memory; "
        "where the loss is a mean over samples, the gradient is that of the whole",
    )
    replicas: int = Field(
        default=1,
        ge=1,
        le=1024,
        exclude_if=lambda value: value == 1,
        description="backbones: number of processes that share the samples of a step, started by torchrun, each on a "
        "device of its own where there are enough",
    )
    loss_tokens: Annotated[int, Field(ge=1, le=2**24)] | Literal["auto", "all"] = Field(
        default="auto",
        exclude_if=lambda value: value == "auto",
        description="backbones: number of tokens whose logits the loss computes at a time, and again in the backward "
        "pass; auto: all of them up to 2^28 logits, above that as many as make 2^26",
    )
    checkpointing: Literal["off", "blocks", "auto"] = Field(
        default="off",
        exclude_if=lambda value: value == "off",
        description="backbones: blocks computes the activations inside every LIV again in the backward pass, for less "
        "memory and the same gradients; auto: where the memory would not do without",
    )
    compile: Literal["off", "eager", "aot_eager", "inductor"] = Field(
        default="off",
        exclude_if=lambda value: value == "off",
        description="backbones: backend of torch.compile for each class of LIV; eager and aot_eager are for tests",
    )
    device: str = Field(
        default="auto", pattern=r"^(auto|cpu|cuda(:\d{1,2})?)$", description="auto takes CUDA where it is available"
    )
    precision: Literal["float32", "tensorfloat32", "bfloat16"] = Field(
        default="float32",
        description="number format of products: bfloat16 runs the forward in autocast, tensorfloat32 rounds factors to "
        "10 bits on CUDA; weights, gradients and moments are float32 in each",
    )
    divergence: float = Field(
        default=1.5, gt=0, description="factor of ln(vocabulary); a smoothed loss above it counts as diverged"
    )
    report_every: int = Field(default=10, ge=1, description="number of steps between two reports of progress")
    checkpoint_every: int | None = Field(default=None, ge=1, description="number of steps between two checkpoints")

    @model_validator(mode="after")
    def _parts_are_equal(self) -> Self:
        if self.batch_size % (self.parts * self.replicas):
            of_each = "" if self.replicas == 1 else f" in each of {self.replicas} replicas"
            raise ValueError(f"a batch of {self.batch_size} samples has no {self.parts} equal parts{of_each}")
        if self.replicas > 1 and self.budget.seconds is not None:
            raise ValueError("replicas have clocks of their own; give them a budget in tokens or steps")
        return self


PAPER_EPOCHS = 25


def paper_training(samples: int, epochs: int = PAPER_EPOCHS) -> TrainingSettings:
    """The training settings of Architect Thyself, section 4.1, for a training split of that many samples.

    An epoch is as many samples as the split has, drawn with replacement. The paper stops after five epochs without a
    better validation AUC: see ``experiments.settings.PAPER_SELECTION``, with a point of the curve per epoch.
    """
    batch_size = 32
    return TrainingSettings(
        budget=Budget(steps=epochs * math.ceil(samples / batch_size)),
        optimizer=OptimizerSettings(
            learning_rate=5e-5, warmup=0.1, floor=0.0, weight_decay=0.01, beta1=0.9, beta2=0.999
        ),
        batch_size=batch_size,
    )

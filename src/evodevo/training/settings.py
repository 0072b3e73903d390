"""The settings of a training run, without torch, so that the command line and the recipes can check them."""

from __future__ import annotations

import math
from typing import Literal, Self

from pydantic import Field, model_validator

from evodevo.settings import Settings


class Budget(Settings):
    """How long a training runs: it ends when the first of the given limits is reached."""

    tokens: int | None = Field(default=None, gt=0, description="predicted tokens, whole batches only")
    steps: int | None = Field(default=None, gt=0, description="optimiser steps")
    seconds: float | None = Field(
        default=None,
        gt=0,
        description="wall-clock seconds, measurements between steps included; cannot be repeated bit for bit",
    )
    flops: float | None = Field(
        default=None, gt=0, description="executed FLOPs of forward and backward passes, and of what belongs to growing"
    )

    @model_validator(mode="after")
    def _one_is_given(self) -> Self:
        if self.tokens is None and self.steps is None and self.seconds is None and self.flops is None:
            raise ValueError("a budget needs at least one of tokens, steps, seconds, flops")
        return self


class OptimizerSettings(Settings):
    """AdamW with linear warm-up and cosine decay."""

    learning_rate: float = Field(default=3e-3, gt=0, description="the highest, at the end of the warm-up")
    warmup: float = Field(default=0.1, ge=0, lt=1, description="share of the budget in which the rate rises linearly")
    floor: float = Field(default=0.1, ge=0, le=1, description="the last learning rate as a share of the highest")
    weight_decay: float = Field(default=0.1, ge=0, description="on matrices only")
    clip: float = Field(default=1.0, gt=0, description="the largest norm of all gradients together")
    beta1: float = Field(default=0.9, ge=0, lt=1)
    beta2: float = Field(default=0.95, ge=0, lt=1)


class TrainingSettings(Settings):
    """One training run."""

    budget: Budget
    optimizer: OptimizerSettings = OptimizerSettings()
    batch_size: int = Field(default=8, ge=1, le=2**16, description="samples of one step")
    device: str = Field(
        default="auto", pattern=r"^(auto|cpu|cuda(:\d{1,2})?)$", description="auto takes CUDA where there is one"
    )
    precision: Literal["float32", "bfloat16"] = Field(
        default="float32", description="bfloat16 runs the forward in autocast"
    )
    divergence: float = Field(
        default=1.5, gt=0, description="a smoothed loss over this many times ln(vocabulary) has diverged"
    )
    report_every: int = Field(default=10, ge=1, description="steps between two reports of progress")
    checkpoint_every: int | None = Field(default=None, ge=1, description="steps between two checkpoints")


PAPER_EPOCHS = 25


def paper_training(samples: int, epochs: int = PAPER_EPOCHS) -> TrainingSettings:
    """What Architect Thyself states in section 4.1, for a training split of so many samples.

    An epoch is as many samples as there are; they are drawn with replacement. The paper stops after five epochs without
    a better validation AUC: see ``evaluation.network_settings.PAPER_SELECTION``, with a point of the curve per epoch.
    """
    batch_size = 32
    return TrainingSettings(
        budget=Budget(steps=epochs * math.ceil(samples / batch_size)),
        optimizer=OptimizerSettings(
            learning_rate=5e-5, warmup=0.1, floor=0.0, weight_decay=0.01, beta1=0.9, beta2=0.999
        ),
        batch_size=batch_size,
    )

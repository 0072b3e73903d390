"""How one child of a multitask system is trained, as values and without torch: the agent's table, and what it tunes.

Source: docs/spec/munet.md#hyperparameters; keys of hyperparameters are those of ``multitask.hyperparameters``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, SerializerFunctionWrapHandler, field_validator, model_serializer

from evodevo.errors import UsageError
from evodevo.multitask.training.objective import ACCURACY, check_objective
from evodevo.settings import Settings, validate
from evodevo.tasks.multitask.batches import BatchPlan, batch_size, plan_batches

Schedule = Literal["cosine", "constant", "linear", "restarts"]
SMALLEST_RATE = 1e-3
"""Of the learning rate: where warm-up begins and ``linear`` ends."""


class PathTrainingSettings(Settings):
    """What all children of an agent have in common."""

    batch: int = Field(default=512, ge=1, le=1 << 16, description="samples of a step, at most")
    validations: int = Field(default=4, ge=1, le=10_000, description="looks at the validation split")
    most_between: int = Field(default=300_000, ge=1, description="training samples between two looks, at most")
    validation_cap: int = Field(default=10_000, ge=1, description="validation samples of a look, at most")
    clip: float = Field(default=1.0, gt=0, description="largest norm of all gradients together")
    momentum_format: Literal["float32", "bfloat16"] = Field(
        default="float32", description="of the momentum; bfloat16 is the published one"
    )
    representations: bool = Field(
        default=True, description="keep on disk what frozen paths make of samples that nothing changes by chance"
    )
    objective: str = Field(
        default=ACCURACY,
        description="objective on the validation split by which children are selected: a share, 0 to 1",
    )
    device: str = Field(default="auto", description="auto, cpu, cuda or cuda:N")
    precision: Literal["float32", "bfloat16"] = Field(default="float32", description="of products")

    @field_validator("objective")
    @classmethod
    def _is_a_share(cls, name: str) -> str:
        check_objective(name)
        return name

    @model_serializer(mode="wrap")
    def _recorded(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Without the objective of the papers: records of agents, and names that follow from them, stay the same."""
        values: dict[str, Any] = handler(self)
        if values.get("objective") == ACCURACY:
            del values["objective"]
        return values

    def plan(self, train: int, validation: int, batch: int | None = None) -> BatchPlan:
        """The course of a child.

        Args:
            train, validation: samples of the task.
            batch: what the task's settings say; None goes by its size.
        """
        return plan_batches(
            train,
            validation,
            batch=batch or batch_size(train, self.batch),
            most_between=self.most_between,
            validation_cap=self.validation_cap,
        )


class OptimizerValues(Settings):
    """What a child's hyperparameters say of its optimizer."""

    rate: float = Field(default=0.02, gt=0)
    schedule: Schedule = "cosine"
    warmup: float = Field(default=0.02, ge=0, lt=1)
    momentum: float = Field(default=0.8, ge=0, lt=1)
    nesterov: bool = True


class DataValues(Settings):
    """What a child's hyperparameters say of the preparation of its training images; the defaults change nothing.

    Attributes:
        area: the least share of an image that a crop shows; 1 crops nothing.
        aspect: of a crop, between this and its inverse.
        flip: left becomes right for half of the images.
        brightness: is added, on the scale from 0 to 1, from minus this to this.
        contrast, saturation: are multiplied by 1 minus this to 1 plus this.
        hue: is turned by minus this to this, of a whole turn.
        quality: of JPEG, from 100 (1 - this) to 100.
    """

    area: float = Field(default=1.0, gt=0, le=1)
    aspect: float = Field(default=1.0, gt=0, le=1)
    flip: bool = False
    brightness: float = Field(default=0.0, ge=0, le=1)
    contrast: float = Field(default=0.0, ge=0, le=1)
    saturation: float = Field(default=0.0, ge=0, le=1)
    hue: float = Field(default=0.0, ge=0, le=0.5)
    quality: float = Field(default=0.0, ge=0, lt=1)

    @property
    def identity(self) -> bool:
        """Whether every image stays as it is, so that what frozen paths make of it may be kept."""
        changes = (self.brightness, self.contrast, self.saturation, self.hue, self.quality)
        return self.area == 1 and not self.flip and not any(changes)


_OPTIMIZER = {
    "opt_lr": "rate",
    "opt_lr_schedule": "schedule",
    "opt_lr_warmup_ratio": "warmup",
    "opt_momentum": "momentum",
    "opt_nesterov": "nesterov",
}
_DATA = {
    "ds_area_range_min": "area",
    "ds_aspect_ratio_range_min": "aspect",
    "ds_flip_left_right": "flip",
    "ds_brightness_delta": "brightness",
    "ds_contrast_delta": "contrast",
    "ds_saturation_delta": "saturation",
    "ds_hue_delta": "hue",
    "ds_quality_delta": "quality",
}


def optimizer_values(hparams: Mapping[str, object]) -> OptimizerValues:
    """Those of a path; what it does not tune has its default.

    Raises:
        UsageError: a value that makes no sense.
    """
    return validate(OptimizerValues, _named(hparams, _OPTIMIZER), what="the path's hyperparameters of training")


def data_values(hparams: Mapping[str, object]) -> DataValues:
    """Those of a path; what it does not tune has its default.

    Raises:
        UsageError: a value that makes no sense.
    """
    return validate(DataValues, _named(hparams, _DATA), what="the path's hyperparameters of data")


def learning_rate(values: OptimizerValues, step: int, steps: int, between: int) -> float:
    """The learning rate of a step.

    Args:
        values: of the optimizer.
        step: from 0.
        steps: of the whole training.
        between: steps between two looks at the validation split; ``restarts`` begins anew after each.

    Raises:
        UsageError: no such step.
    """
    if not 0 <= step < steps:
        raise UsageError(f"a training of {steps} steps has no step {step}.")
    if values.schedule == "constant":
        return 0.5 * values.rate
    if values.schedule == "restarts":
        step, steps = step % between, between
    least = values.rate * SMALLEST_RATE
    warmup = int(values.warmup * steps)
    if step < warmup:
        return least + (values.rate - least) * step / warmup
    share = (step - warmup) / (steps - warmup)
    if values.schedule == "linear":
        return values.rate + (least - values.rate) * share
    return values.rate * 0.5 * (1 + math.cos(math.pi * share))


def _named(hparams: Mapping[str, object], names: Mapping[str, str]) -> dict[str, object]:
    return {name: hparams[key] for key, name in names.items() if key in hparams}

"""The training of one child of a multitask system as values, without torch: the agent's settings and the tuned values.

Source: docs/spec/munet.md#hyperparameters; keys of hyperparameters are those of ``multitask.hyperparameters``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, Self

from pydantic import Field, SerializerFunctionWrapHandler, field_validator, model_serializer, model_validator

from evodevo.multitask.training.objective import ACCURACY, check_objective
from evodevo.settings import Settings, validate
from evodevo.tasks.multitask.batches import BatchPlan, batch_size, plan_batches
from evodevo.training.settings import Budget, MomentumSettings, TrainingSettings

FLAT = 0.005


class PathTrainingSettings(Settings):
    """The common training settings of all children of an agent."""

    batch: int = Field(default=512, ge=1, le=1 << 16, description="samples of a step, at most")
    validations: int = Field(default=4, ge=1, le=10_000, description="looks at the validation split")
    most_between: int = Field(default=300_000, ge=1, description="training samples between two looks, at most")
    least_between: int = Field(
        default=1,
        ge=1,
        description="training samples between two looks, at least, up to most_between; a smaller split is passed again",
    )
    least_steps: int = Field(
        default=0,
        ge=0,
        le=10_000_000,
        description="steps of a child at least, where passes over the split would be fewer; most_between goes before",
    )
    first_look: bool = Field(
        default=False,
        description="one look more, before the first step, so that no path is kept that is worse than what it begins "
        "with; agents of the version paper have it since",
    )
    steps: int = Field(
        default=0,
        ge=0,
        le=10_000_000,
        description="steps of a child, rounded up to whole intervals between looks; 0 = passes over the split, as "
        "most_between, least_between and least_steps have it",
    )
    most_steps: int = Field(
        default=0,
        ge=0,
        le=10_000_000,
        description="steps of a child at most: it is trained on, one period of steps after another, each with a whole "
        "cosine, until validation is flat; 0 = one period",
    )
    flat: float = Field(
        default=FLAT,
        ge=0,
        le=1,
        description="validation is flat where the best look of a period exceeds all earlier ones by this much at most",
    )
    validation_cap: int = Field(default=10_000, ge=1, description="validation samples of a look, at most")
    clip: float = Field(default=1.0, gt=0, description="largest norm of all gradients together")
    momentum_format: Literal["float32", "bfloat16"] = Field(
        default="float32", description="number format of the momentum; bfloat16 is the published one"
    )
    representations: bool = Field(
        default=True, description="keep on disk what frozen paths make of samples that nothing changes by chance"
    )
    objective: str = Field(
        default=ACCURACY,
        description="objective on the validation split by which children are selected: a share, 0 to 1",
    )
    device: str = Field(default="auto", description="auto, cpu, cuda or cuda:N")
    precision: Literal["float32", "bfloat16"] = Field(default="float32", description="number format of products")

    @field_validator("objective")
    @classmethod
    def _is_a_share(cls, name: str) -> str:
        check_objective(name)
        return name

    @model_validator(mode="after")
    def _periods_have_a_length(self) -> Self:
        if self.most_steps and not self.steps:
            raise ValueError("most_steps counts in periods of steps; set steps, too")
        if 0 < self.most_steps < self.steps:
            raise ValueError(f"most_steps = {self.most_steps} is below steps = {self.steps}")
        return self

    @model_serializer(mode="wrap")
    def _recorded(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Without what was added later where it changes nothing: records of agents, and names that follow from them,
        stay the same."""
        values: dict[str, Any] = handler(self)
        for name, unchanged in (
            ("objective", ACCURACY),
            ("least_between", 1),
            ("least_steps", 0),
            ("first_look", False),
            ("steps", 0),
            ("most_steps", 0),
            ("flat", FLAT),
        ):
            if values.get(name) == unchanged:
                del values[name]
        return values

    def plan(self, train: int, validation: int, batch: int | None = None) -> BatchPlan:
        """The course of a child.

        Args:
            train, validation: number of samples of the task.
            batch: batch size in the task's settings; None derives it from the number of samples.
        """
        plan = plan_batches(
            train,
            validation,
            batch=batch or batch_size(train, self.batch),
            most_between=self.most_between,
            least_between=self.least_between,
            validation_cap=self.validation_cap,
        )
        if self.steps:
            return replace(plan, between=-(-self.steps // self.validations))
        least = min(-(-self.least_steps // self.validations), -(-self.most_between // plan.batch))
        return replace(plan, between=max(plan.between, least))

    def most(self, plan: BatchPlan) -> int:
        """Number of steps of a child, at most: whole periods of ``plan.between * validations`` steps, one at least."""
        period = plan.between * self.validations
        return period * max(1, self.most_steps // period)

    def is_flat(self, evals: Sequence[float]) -> bool:
        """Whether a child that has ended a period has validations that are flat.

        A period always ends a cosine: weights at a high rate are compared with none.

        Args:
            evals: accuracy at each look so far, 0 to 1; the last ``validations`` ones are of that period.
        """
        before = evals[: -self.validations]
        return bool(before) and max(evals[-self.validations :]) - max(before) <= self.flat

    def loop(self, plan: BatchPlan, optimizer: MomentumSettings) -> TrainingSettings:
        """The settings of the training loop for a child: it reports where the child is validated.

        Args:
            plan: Numbers of samples and steps of the child.
            optimizer: Optimiser of the child, as its hyperparameters have it; what the agent decides is filled in.
        """
        agents: dict[str, Any] = {"clip": self.clip, "trace_format": self.momentum_format, "interval": plan.between}
        steps, period = self.most(plan), plan.between * self.validations
        if steps > period and optimizer.schedule == "cosine":
            agents |= {"schedule": "restarts", "interval": period}
        return TrainingSettings(
            budget=Budget(steps=steps),
            optimizer=optimizer.model_copy(update=agents),
            batch_size=plan.batch,
            report_every=plan.between,
        )


class DataValues(Settings):
    """Values of the augmentation in a child's hyperparameters; the defaults change nothing.

    Attributes:
        area: least share of an image in a crop, 0 to 1; 1 crops nothing.
        aspect: bound of a crop's aspect ratio, which lies between this and its inverse.
        flip: whether half of the images are mirrored.
        shift: largest movement in either direction, as a share of height and width; edges repeat.
        brightness: largest number added or subtracted, on the scale from 0 to 1.
        contrast, saturation: largest difference of their factors from 1.
        hue: largest rotation in either direction, as a share of a whole turn.
        quality: range of JPEG quality, from 100 (1 - this) to 100.
    """

    area: float = Field(default=1.0, gt=0, le=1)
    aspect: float = Field(default=1.0, gt=0, le=1)
    flip: bool = False
    shift: float = Field(default=0.0, ge=0, le=0.5)
    brightness: float = Field(default=0.0, ge=0, le=1)
    contrast: float = Field(default=0.0, ge=0, le=1)
    saturation: float = Field(default=0.0, ge=0, le=1)
    hue: float = Field(default=0.0, ge=0, le=0.5)
    quality: float = Field(default=0.0, ge=0, lt=1)

    @property
    def identity(self) -> bool:
        """Whether every image stays as it is, so that what frozen paths make of it may be kept."""
        changes = (self.shift, self.brightness, self.contrast, self.saturation, self.hue, self.quality)
        return self.area == 1 and not self.flip and not any(changes)


_OPTIMIZER = {
    "opt_lr": "learning_rate",
    "opt_lr_schedule": "schedule",
    "opt_lr_warmup_ratio": "warmup",
    "opt_momentum": "momentum",
    "opt_nesterov": "nesterov",
}
_DATA = {
    "ds_area_range_min": "area",
    "ds_aspect_ratio_range_min": "aspect",
    "ds_flip_left_right": "flip",
    "ds_shift": "shift",
    "ds_brightness_delta": "brightness",
    "ds_contrast_delta": "contrast",
    "ds_saturation_delta": "saturation",
    "ds_hue_delta": "hue",
    "ds_quality_delta": "quality",
}


def optimizer_settings(hparams: Mapping[str, object]) -> MomentumSettings:
    """The optimiser in the hyperparameters of a path; the defaults for what it does not tune.

    Raises:
        UsageError: A value is out of its range.
    """
    return validate(MomentumSettings, _named(hparams, _OPTIMIZER), what="the path's hyperparameters of training")


def data_values(hparams: Mapping[str, object]) -> DataValues:
    """Those of a path; what it does not tune has its default.

    Raises:
        UsageError: a value that makes no sense.
    """
    return validate(DataValues, _named(hparams, _DATA), what="the path's hyperparameters of data")


def _named(hparams: Mapping[str, object], names: Mapping[str, str]) -> dict[str, object]:
    return {name: hparams[key] for key, name in names.items() if key in hparams}

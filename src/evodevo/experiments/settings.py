"""Settings of one evaluation of a network of separate samples, without torch."""

from __future__ import annotations

from typing import Any, Literal, Self

from pydantic import Field, model_validator

from evodevo.experiments.trials import Trial
from evodevo.networks.routing.spec import InferenceStructure
from evodevo.settings import Settings, merge, validate
from evodevo.tasks.base import TASKS
from evodevo.training.settings import TrainingSettings


class ProbeSettings(Settings):
    """A trained network measured once more under other circumstances. Fields that are left out stay as they were
    trained.

    Attributes:
        name: name in tables.
        iterations: T of an H-Model, also beyond the trained one.
        alpha, alpha_rate: temperature of an H-Model's routers.
        inference: choice of the connections of an H-Model that count.
        shuffle: inputs that are given to the wrong samples, to measure their influence.
        task: settings of the task that replace the trained ones ({"depths": [4, 5]}).
    """

    name: str = Field(min_length=1, max_length=60)
    iterations: int | None = Field(default=None, ge=0, le=256)
    alpha: float | None = Field(default=None, ge=1e-3, le=1e3)
    alpha_rate: float | None = Field(default=None, gt=0, le=100)
    inference: InferenceStructure | None = None
    shuffle: tuple[str, ...] = ()
    task: dict[str, Any] = Field(default_factory=dict)

    @property
    def changes(self) -> dict[str, Any]:
        """Attributes of the network (``Network.adjustable``) that are set while it is measured; networks without them
        are skipped."""
        names = ("iterations", "alpha", "alpha_rate", "inference")
        return {name: getattr(self, name) for name in names if getattr(self, name) is not None}


class WeightSelection(Settings):
    """The selection of weights: those that were best on validation samples, at the points of its curve.

    Attributes:
        metric: metric on ``curve_samples`` validation samples. Where it is not defined on them, accuracy takes its
            place, where that is not either the loss; the evaluation's facts record it. Of equal values the lower loss
            is better.
        patience: number of measurements in a row that are no better than the best, after which the training stops; None
            trains to the end of the budget.
        min_share: share of the budget that is trained in any case, 0 to 1.
    """

    metric: Literal["auc", "accuracy", "loss", "f1_macro"] = "auc"
    patience: int | None = Field(default=None, ge=1, le=256)
    min_share: float = Field(default=0.0, ge=0, le=1)


PAPER_SELECTION = WeightSelection(metric="auc", patience=5)
"""Architect Thyself, section 4.1; with ``paper_training`` and one point of the curve per epoch."""


class NetworkEvaluationSettings(Settings):
    """The settings of a network's evaluation.

    Attributes:
        objectives: names of rows that judge networks, each with ``:minimise`` or ``:maximise`` where the other
            direction is wanted.
        task: a row of the table of tasks that hands out samples.
        task_settings: settings of that task; checked by its own settings class.
        training: budget and optimiser; a ``tokens`` budget counts samples here.
        options: procedure -> options of all arms that are trained by it; an arm's own replace them.
        validation_samples, test_samples: number of samples measured at the end; None for all. With ``test_samples=0``
            the test split is not read.
        train_samples: number of samples of the training split measured at the end, to see what was memorised; 0 for
            none.
        curve_points: number of measurements of the validation loss while training, evenly over the budget.
        curve_samples: number of samples of each.
        select: selection of the weights that are kept; those of the last step if left out.
        probes: further measurements of the trained network.
        exchange: a probe for each input, where there are several: it is given to the wrong samples.
        trace_samples: number of validation samples whose routing is kept; 0 keeps none.
        trace_course: the routing of these samples is kept at every point of the curve too.
        routes: a group of samples (a language) that a linear probe predicts from the routes, with its controls.
        features: features of frozen towers: ``cached``, computed once for all trainings and kept on disk; ``live``,
            computed for every batch anew. Trained networks are the same but for rounding; only executed FLOPs are
            counted, so that those of a tower whose features are cached are left out.
        inspected: whether FLOPs are counted and the trained network is looked into. Both compute attention by plain
            products, whose memory grows with the square of the length.
        seconds: wall-clock limit of one evaluation.
        memory_bytes: memory limit of one evaluation.
        keep_weights: trained weights go into the store.
    """

    objectives: tuple[str, ...] = ("error", "executed_flops")
    task: str
    task_settings: dict[str, Any] = Field(default_factory=dict)
    training: TrainingSettings
    options: dict[str, dict[str, Any]] = Field(default_factory=dict)
    validation_samples: int | None = Field(default=1000, ge=1)
    test_samples: int | None = Field(default=1000, ge=0)
    train_samples: int = Field(default=0, ge=0)
    curve_points: int = Field(default=10, ge=1, le=256)
    curve_samples: int = Field(default=256, ge=1)
    select: WeightSelection | None = None
    probes: tuple[ProbeSettings, ...] = ()
    exchange: bool = False
    trace_samples: int = Field(default=64, ge=0, le=4096)
    trace_course: bool = False
    routes: str | None = None
    features: Literal["cached", "live"] = "cached"
    inspected: bool = True
    seconds: float | None = Field(default=None, gt=0)
    memory_bytes: int | None = Field(default=None, gt=0)
    keep_weights: bool = True

    @model_validator(mode="after")
    def _flops_are_counted_where_they_count(self) -> Self:
        names = [text.partition(":")[0] for text in self.objectives]
        if not self.inspected and ("executed_flops" in names or self.training.budget.flops is not None):
            raise ValueError("FLOPs are an objective or a budget, and inspected=false leaves them uncounted")
        return self


def task_settings(settings: NetworkEvaluationSettings, changes: dict[str, Any] | None = None) -> Settings:
    """The settings of the task, of its own class, with what an arm or a probe changes.

    Raises:
        UsageError: an unknown task, a setting that it does not have, or a wrong value.
    """
    kind: type[Settings] = TASKS.get(settings.task).settings_class
    return validate(kind, merge(settings.task_settings, changes or {}), what=f"settings of the task {settings.task!r}")


def procedure_options(settings: NetworkEvaluationSettings, arm: Trial) -> dict[str, Any]:
    """The options of an arm's procedure: the common ones, and what the arm replaces."""
    return merge(settings.options.get(arm.procedure, {}), arm.options)


def training_settings(settings: NetworkEvaluationSettings, arm: Trial) -> TrainingSettings:
    """Settings of an arm's training: the common settings, the arm's changes, its learning rate.

    Raises:
        UsageError: a setting that does not exist, or a wrong value.
    """
    common = settings.training.model_dump(mode="json")
    changes = dict(arm.training)
    if "budget" in changes:
        # Another budget replaces the common one; merged, the smaller of both would count.
        common["budget"] = {}
    values = merge(merge(common, changes), {"optimizer": {"learning_rate": arm.learning_rate}})
    return validate(TrainingSettings, values, what=f"training settings of {arm.name}")

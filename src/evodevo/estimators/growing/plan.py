"""Settings of growth, training and selection that follow from the parameters of ``GrowingClassifier``."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from evodevo.errors import UsageError
from evodevo.estimators.fitting import has_auc, positive
from evodevo.estimators.targets import ANSWER
from evodevo.experiments.settings import NetworkEvaluationSettings, WeightSelection
from evodevo.growth.procedures.settings import check_events, check_forks, check_zoo
from evodevo.growth.recipes.growing import RACE_THEN_GROW, growth_of_new_runs
from evodevo.growth.spec import GrowthSettings
from evodevo.growth.zoo.growable import GrowableZoo
from evodevo.module_zoo.spec import ZooStructure
from evodevo.settings import Settings, merge, validate
from evodevo.tasks.in_memory import InMemoryTask
from evodevo.training.settings import Budget, TrainingSettings

MOST_POINTS = 256
"""Largest number of points of a validation curve."""
POINTS = 50
"""Number of points where epochs do not determine it."""


class GrowingPlan(Settings):
    """Settings of a growing classifier; the parameters of ``GrowingClassifier`` by the same names.

    Attributes:
        watched: Whether the split ``validation`` holds samples of its own; otherwise the last weights are kept.
    """

    epochs: int
    budget: dict[str, float | int] | None
    learning_rate: float
    batch_size: int
    patience: int | None
    device: str
    verbose: bool
    watched: bool


def growth_settings(
    strategist: str | None, events: int | Mapping[str, Any] | None, growth: Mapping[str, Any] | None
) -> GrowthSettings:
    """The settings of the growth; without a strategist those of ``RACE_THEN_GROW``, and what is given on top.

    Raises:
        UsageError: A setting that does not exist, a wrong value, or one that is given twice.
    """
    values = dict(growth or {})
    if "strategist" in values:
        raise UsageError("growth holds 'strategist'; set it by the parameter strategist alone.")
    for name in ("edit_memory", "policy_memory"):
        if name in values:
            raise UsageError(f"growth holds {name!r}, which names a blob of a store; a classifier has none.")
    if events is not None:
        if "events" in values:
            raise UsageError("growth holds 'events'; set them there or by the parameter events, not both.")
        values["events"] = dict(events) if isinstance(events, Mapping) else {"count": events}
    usual = growth_of_new_runs()
    # In little time there is room for the cheaper networks alone.
    raced = merge(dict(RACE_THEN_GROW), {"race": {"partial": True}})
    usual = merge(usual, raced if strategist is None else {"strategist": strategist})
    return validate(GrowthSettings, merge(usual, values), what="GrowingClassifier")


def evaluation_settings(task: InMemoryTask, growth: GrowthSettings, plan: GrowingPlan) -> NetworkEvaluationSettings:
    """Settings of the training and of the selection of weights.

    Raises:
        UsageError: An invalid parameter.
    """
    count = task.count("train")
    size = min(positive("batch_size", plan.batch_size), count)
    if plan.budget is None:
        points = min(positive("epochs", plan.epochs), MOST_POINTS)
        budget: dict[str, Any] = {"steps": plan.epochs * math.ceil(count / size)}
    else:
        points = POINTS
        budget = validate(Budget, plan.budget, what="the budget of GrowingClassifier").model_dump(mode="json")
    values = {
        "budget": budget,
        "optimizer": {"learning_rate": plan.learning_rate},
        "batch_size": size,
        "device": plan.device,
        "report_every": 1,  # a point of the curve comes with a report
    }
    return NetworkEvaluationSettings(
        task=task.name,
        training=validate(TrainingSettings, values, what="GrowingClassifier"),
        curve_points=points if plan.watched else 1,
        curve_samples=task.count("validation") if plan.watched else 1,
        select=_selection(task, growth, plan.patience) if plan.watched else None,
        trace_samples=0,
    )


def check(
    structure: ZooStructure, training: TrainingSettings, growth: GrowthSettings, plan: GrowingPlan, samples: int
) -> None:
    """Refuse invalid settings before anything is built.

    Raises:
        UsageError: A zoo that is too large at the start, or a budget too small for the events.
    """
    check_zoo(GrowableZoo.of(structure), growth)
    try:
        check_forks(training, growth)
    except UsageError:
        raise UsageError(
            'forks confirm what grows here, and are charged in seconds or in FLOPs: give budget={"seconds": 60} or '
            'budget={"flops": 2e11} alone; or name a strategist, for growth without forks.'
        ) from None
    try:
        check_events(training, growth)
    except UsageError as error:
        if plan.budget is not None:
            raise
        steps = math.ceil(samples / training.batch_size)
        words = f"Here an epoch has {steps} {'step' if steps == 1 else 'steps'}, and epochs is {plan.epochs}."
        raise UsageError(f"{error} {words}") from None


def _selection(task: InMemoryTask, growth: GrowthSettings, patience: int | None) -> WeightSelection:
    """Selection of the best weights; patience does not end the training before the last event and its warm-up."""
    if patience is not None:
        positive("patience", patience)
    events = growth.events
    least = min(events.last + events.warm, 1.0) if events.count else 0.0
    targets = task.fetch("validation", np.arange(task.count("validation")))[f"{ANSWER}/target"]
    metric = "auc" if has_auc(task.outputs[0], targets) else "loss"
    values = {"metric": metric, "patience": patience, "min_share": least}
    return validate(WeightSelection, values, what="GrowingClassifier")

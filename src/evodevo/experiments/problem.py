"""Networks of separate samples, seen from the coordinator: no torch here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar

from evodevo import canonical
from evodevo.errors import UsageError
from evodevo.experiments.procedures import PROCEDURES
from evodevo.experiments.settings import NetworkEvaluationSettings, task_settings, training_settings
from evodevo.experiments.trials import Trial
from evodevo.objectives.base import Judged, parse_objectives
from evodevo.randomness import integer_seed
from evodevo.search.problem import Goal, Outcome, Problem, Terms, read_answer
from evodevo.tasks.base import TASKS, SampleTask, Split

PACE = "network_pace"
PACED_STEPS = 4
"""Steps of a training whose pace is measured."""
FEATURES = "network_features"


class NetworkProblem(Problem):
    """Train a network on samples and score it.

    Args:
        arm_of: genome -> its training; the identity where genomes are trainings.
        settings: settings of the evaluation.
        blobs: folder of the store's blob pool, where workers put weights and traces; None keeps none.
        cache_folder: folder of prepared data; None is the user's.
        arms: trainings that are known beforehand: errors in one are raised before anything begins.

    Raises:
        DataError, UsageError: data or settings cannot be used; nothing has been trained then.
    """

    entry = "network"
    judged: ClassVar[Judged] = "network"
    unit: ClassVar[str] = "samples"
    """What a budget in tokens counts."""
    replicates: ClassVar[bool] = False
    """Whether its evaluator starts the replicas of a training."""

    def __init__(
        self,
        arm_of: Callable[[Any], Trial],
        settings: NetworkEvaluationSettings,
        blobs: str | Path | None = None,
        cache_folder: Path | None = None,
        arms: Sequence[Trial] = (),
    ) -> None:
        if settings.training.replicas > 1 and not self.replicates:
            raise UsageError(
                f"evaluation.training.replicas is {settings.training.replicas}; trainings of backbones alone have "
                "replicas. Leave it out."
            )
        self.arm_of = arm_of
        self.settings = settings
        self.objectives = parse_objectives(settings.objectives, self.judged)
        self.goals = tuple(Goal(objective.name, objective.unit, objective.direction) for objective in self.objectives)
        self.seconds = settings.seconds
        self.memory_bytes = settings.memory_bytes
        self._blobs = blobs
        self._cache_folder = cache_folder
        self._tasks: dict[str, SampleTask] = {}
        self.task = self.open_task({})
        for arm in arms:
            procedure = PROCEDURES.get(arm.procedure)
            procedure.check(settings, arm)
            training_settings(settings, arm)
            procedure.check_task(settings, arm, self.open_task(arm.task))
        for probe in settings.probes:
            self.open_task(probe.task)
        self.fidelity = self._fidelity()

    def open_task(self, changes: dict[str, Any]) -> SampleTask:
        """The task with what an arm changes; each is read once."""
        values = task_settings(self.settings, changes)
        name = canonical.digest(values.model_dump(mode="json"))
        if name not in self._tasks:
            self._tasks[name] = TASKS.get(self.settings.task).open(values, self._cache_folder)
        return self._tasks[name]

    def _fidelity(self) -> str:
        """Everything that decides a score beside genome and seed."""
        training = self.settings.training.model_dump(mode="json")
        # These change how a training is watched, not what it computes.
        for name in ("report_every", "checkpoint_every", "checkpointing"):
            training.pop(name, None)
        if training["budget"]["flops"] is None:
            training["budget"].pop("flops")  # scores of before there were such budgets stay comparable
        if training["parts"] == 1:
            training.pop("parts")
        decisive = {"task": self.task.digest, "training": training, **self.decisive()}
        budget = self.settings.training.budget
        names = {"tokens": self.unit}
        amounts = [f"{names.get(k, k)}={value:g}" for k, value in budget.model_dump().items() if value is not None]
        return f"{','.join(amounts)};{canonical.digest(decisive)[:12]}"

    def decisive(self) -> dict[str, Any]:
        """What decides a score beside the task and the training: JSON."""
        settings = self.settings
        values: dict[str, Any] = {"samples": [settings.validation_samples, settings.test_samples]}
        if settings.options:
            values["options"] = settings.options
        if settings.select is not None:
            values["select"] = settings.select.model_dump(mode="json")
            # Weights are measured at the points of the curve, so these decide which are chosen.
            values["curve"] = [settings.curve_points, settings.curve_samples, settings.training.report_every]
        return values

    def training_seed(self, arm: Trial, seed: int) -> int:
        """The seed of initialisation and data order. Arms with seeds of equal number are initialised and fed alike."""
        return integer_seed(seed, "arm", arm.seed)

    def payload(self, genome: Any, seed: int, resume: str | None = None) -> bytes:
        """Payload of ``experiments.evaluate``."""
        arm = self.arm_of(genome)
        return canonical.dumps({**self.values(arm, self.training_seed(arm, seed)), "resume": resume}).encode()

    def payload_on(self, terms: Terms, genome: Any, seed: int, resume: str | None = None) -> bytes:
        """See ``Problem``."""
        values = canonical.loads(self.payload(genome, seed, resume), what="an evaluation")
        if terms.budget < 1:
            budget = self.settings.training.budget.part(terms.budget, self.tokens_per_step)
            values["settings"]["training"]["budget"] = budget.model_dump(mode="json")
        return canonical.dumps({**values, "terms": asdict(terms)}).encode()

    @property
    def undivided(self) -> str:  # type: ignore[override]
        """See ``Problem``."""
        if self.settings.training.budget.seconds is not None:
            return "a budget in seconds has no share that is the same each time; give evaluation.training.budget.tokens"
        if self.settings.select is not None:
            return "a selection of weights (evaluation.select) needs the whole training"
        return ""

    @property
    def tokens_per_step(self) -> int:
        """Part of a budget in tokens that a step takes."""
        return self.settings.training.batch_size

    def values(self, arm: Trial, seed: int) -> dict[str, Any]:
        """The same as JSON values, without a checkpoint to resume from."""
        return {
            "arm": arm.model_dump(mode="json"),
            "settings": self.settings.model_dump(mode="json"),
            "task_key": getattr(self.open_task(arm.task), "key", None),
            "cache_folder": None if self._cache_folder is None else str(self._cache_folder),
            "blobs": None if self._blobs is None else str(self._blobs),
            "seed": seed,
        }

    def read(self, payload: bytes) -> Outcome:
        return read_answer(payload)

    def steps(self, genome: Any) -> int | None:
        """Optimiser steps of a training; None where the clock alone ends it."""
        training = training_settings(self.settings, self.arm_of(genome))
        limits = [training.budget.steps, None if training.budget.tokens is None else training.budget.tokens]
        if limits[1] is not None:
            limits[1] //= training.batch_size
        return min((limit for limit in limits if limit is not None), default=None)

    def describe(self) -> dict[str, Any]:
        """Description of the data for a report, with the scores of simple baselines that a network must beat."""
        splits: tuple[Split, ...] = ("validation",) if self.settings.test_samples == 0 else ("validation", "test")
        return {
            **self.task.describe(),
            "baselines": {split: self.task.baselines(split) for split in splits},
        }

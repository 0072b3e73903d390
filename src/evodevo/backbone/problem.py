"""Language models from backbone genomes, seen from the coordinator: no torch here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from evodevo import canonical
from evodevo.backbone.evaluation_settings import EvaluationSettings
from evodevo.backbone.genome import BackboneGenome
from evodevo.backbone.space import BackboneSpace
from evodevo.errors import GenomeError
from evodevo.objectives.base import parse_objectives
from evodevo.search.problem import INFEASIBLE, Goal, Outcome, Problem, read_answer
from evodevo.tasks.text.language import LanguageTask

BASELINES = ("transformer++", "striped-mamba")


class BackboneProblem(Problem):
    """Train a backbone on text and score it.

    Args:
        space: space of the genomes.
        settings: settings of the evaluation.
        blobs: folder of the store's blob pool, where workers put weights; None keeps none.
        cache_folder: folder of prepared data; None is the user's.

    Raises:
        DataError, UsageError: data or settings cannot be used; nothing has been trained then.
    """

    entry = "backbone"

    def __init__(
        self,
        space: BackboneSpace,
        settings: EvaluationSettings,
        blobs: Path | None = None,
        cache_folder: Path | None = None,
    ) -> None:
        self.space = space
        self.settings = settings
        self.objectives = parse_objectives(settings.objectives)
        self.goals = tuple(Goal(objective.name, objective.unit, objective.direction) for objective in self.objectives)
        self.task = LanguageTask.open(settings.language, cache_folder)
        self.seconds = settings.seconds
        self.memory_bytes = settings.memory_bytes
        self._blobs = blobs
        self._cache_folder = cache_folder
        self.fidelity = self._fidelity()

    def _fidelity(self) -> str:
        """Everything that decides a score beside genome and seed."""
        training = self.settings.training.model_dump(mode="json")
        # These change how a training is watched, not what it computes.
        for name in ("report_every", "checkpoint_every"):
            training.pop(name)
        if training["budget"]["flops"] is None:
            training["budget"].pop("flops")  # scores of before there were such budgets stay comparable
        decisive = {
            "task": self.task.digest,
            "training": training,
            "tied": self.settings.tied,
            "validation_tokens": self.settings.validation_tokens,
            "dimensions": self.space.settings.dimensions.model_dump(mode="json"),
            # These decide what a cache or a latency is.
            "cost": [self.settings.cost_length, self.settings.convention],
        }
        budget = self.settings.training.budget
        amounts = [f"{name}={value:g}" for name, value in budget.model_dump().items() if value is not None]
        return f"{','.join(amounts)};{canonical.digest(decisive)[:12]}"

    def screen(self, genome: BackboneGenome) -> Outcome | None:
        """Constraints are checked on the static cost, before anything is built."""
        cost = self.cost(genome)
        violation, words = 0.0, []
        for limit, value, name in (
            (self.settings.max_parameters, cost["parameters"], "parameters"),
            (self.settings.max_cache_bytes, cost["cache_bytes"], "cache bytes"),
        ):
            if limit is not None and value > limit:
                violation += (value - limit) / max(limit, 1)
                words.append(f"{value:,} {name}, at most {limit:,} are allowed")
        if not words:
            return None
        return Outcome(reason=INFEASIBLE, detail="; ".join(words), violation=violation, cost=cost)

    def cost(self, genome: BackboneGenome) -> dict[str, int]:
        """The static cost at the settings' length."""
        cost = self.space.cost(
            genome,
            length=self.settings.cost_length,
            convention=self.settings.convention,
            vocabulary=self.task.vocabulary,
            tied=self.settings.tied,
        )
        return cost.to_json()

    def payload(self, genome: BackboneGenome, seed: int, resume: str | None = None) -> bytes:
        """Payload of ``backbone.evaluate``; the seed is that of initialisation and data order."""
        return canonical.dumps(
            {
                "space": self.space.settings.model_dump(mode="json"),
                "genome": self.space.to_json(genome),
                "settings": self.settings.model_dump(mode="json"),
                "task_key": self.task.key,
                "cache_folder": None if self._cache_folder is None else str(self._cache_folder),
                "blobs": None if self._blobs is None else str(self._blobs),
                "seed": seed,
                "resume": resume,
            }
        ).encode()

    def read(self, payload: bytes) -> Outcome:
        return read_answer(payload)

    def baselines(self) -> dict[str, BackboneGenome]:
        """The paper's baselines, where they exist at this depth (STAR A.3)."""
        genomes = {}
        for name in BASELINES:
            try:
                genomes[name] = self.space.named(name)
            except GenomeError:
                continue
        return genomes

    def describe(self) -> dict[str, Any]:
        """Description of the data for a report, with the scores of count models that a trained model must beat."""
        windows = self.task.evaluation_windows("validation", self.settings.validation_tokens)
        return {**self.task.describe(), "count_models": self.task.baselines("validation", windows)}

"""Language models from backbone genomes, seen from the coordinator: no torch here."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast

from evodevo.backbone.evaluation_settings import EvaluationSettings
from evodevo.backbone.genome import BackboneGenome
from evodevo.backbone.network import BackboneNetwork
from evodevo.backbone.recall.settings import RECALL_OBJECTIVES
from evodevo.backbone.space import BackboneSpace
from evodevo.errors import GenomeError
from evodevo.experiments.problem import NetworkProblem
from evodevo.experiments.trials import Trial
from evodevo.objectives.base import Objective, Subject, parse_objectives
from evodevo.search.problem import INFEASIBLE, Outcome
from evodevo.tasks.text.language import LanguageTask

BASELINES = ("transformer++", "striped-mamba")


def exact_objectives(
    space: BackboneSpace, evaluation: EvaluationSettings, vocabulary: int
) -> dict[str, Callable[[BackboneGenome], float]]:
    """Objectives that need the genome alone, by name, each with the value as ``BackboneEvaluation`` measures it."""

    def value(objective: Objective, genome: BackboneGenome) -> float:
        subject = Subject(
            space=space,
            genome=genome,
            length=evaluation.cost_length,
            vocabulary=vocabulary,
            convention=evaluation.convention,
        )
        return objective.measure(subject).value

    return {one.name: partial(value, one) for one in parse_objectives(evaluation.objectives) if one.needs == "genome"}


class BackboneProblem(NetworkProblem):
    """Train a backbone on text and score it.

    Args:
        space: Space of the genomes.
        evaluation: Settings of the evaluation.
        blobs: Folder of the store's blob pool, where workers put weights; None keeps none.
        cache_folder: Folder of prepared data; None is the user's.

    Raises:
        DataError, UsageError: Data or settings cannot be used; nothing has been trained then.
    """

    entry = "backbone"
    judged = "language_model"
    unit = "tokens"
    replicates = True

    def __init__(
        self,
        space: BackboneSpace,
        evaluation: EvaluationSettings,
        blobs: str | Path | None = None,
        cache_folder: Path | None = None,
    ) -> None:
        self.space = space
        self.evaluation = evaluation
        super().__init__(self._arm, evaluation.of_networks(), blobs, cache_folder)
        self.text = cast(LanguageTask, self.task)
        known = exact_objectives(space, evaluation, self.text.vocabulary)
        self.goals = tuple(replace(goal, exact=known.get(goal.name)) for goal in self.goals)

    def _arm(self, genome: BackboneGenome) -> Trial:
        network = BackboneNetwork.of(self.space, genome, tied=self.evaluation.tied)
        rate = self.evaluation.training.optimizer.learning_rate
        return Trial(name="backbone", network=network, learning_rate=rate)

    def decisive(self) -> dict[str, Any]:
        """See ``NetworkProblem``."""
        recalls = {objective.name for objective in self.objectives} & set(RECALL_OBJECTIVES)
        return {
            **({"recall": self.evaluation.recall.model_dump(mode="json")} if recalls else {}),
            "tied": self.evaluation.tied,
            "validation_tokens": self.evaluation.validation_tokens,
            # A sum in another order differs in its last bits; runs that were stored without the setting keep theirs.
            **({} if self.evaluation.validation_batch is None else {"windows": self.evaluation.windows_at_once}),
            "dimensions": self.space.settings.dimensions.model_dump(mode="json"),
            # These decide what a cache or a latency is.
            "cost": [self.evaluation.cost_length, self.evaluation.convention],
        }

    @property
    def tokens_per_step(self) -> int:
        """See ``NetworkProblem``."""
        return self.evaluation.training.batch_size * self.evaluation.language.context_length

    @property
    def fresh(self) -> str:  # type: ignore[override]
        """See ``Problem``."""
        return ""

    def training_seed(self, arm: Trial, seed: int) -> int:
        """See ``NetworkProblem``: the evaluation's own."""
        return seed

    def values(self, arm: Trial, seed: int) -> dict[str, Any]:
        """See ``NetworkProblem``; with the settings by which the language model is measured."""
        return {**super().values(arm, seed), "evaluation": self.evaluation.model_dump(mode="json")}

    def screen(self, genome: BackboneGenome) -> Outcome | None:
        """Constraints are checked on the static cost, before anything is built."""
        if self.evaluation.max_parameters is None and self.evaluation.max_cache_bytes is None:
            return None
        cost = self.cost(genome)
        violation, words = 0.0, []
        for limit, value, name in (
            (self.evaluation.max_parameters, cost["parameters"], "parameters"),
            (self.evaluation.max_cache_bytes, cost["cache_bytes"], "cache bytes"),
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
            length=self.evaluation.cost_length,
            convention=self.evaluation.convention,
            vocabulary=self.text.vocabulary,
            tied=self.evaluation.tied,
        )
        return cost.to_json()

    def baselines(self) -> dict[str, BackboneGenome]:
        """The paper's baselines, where they exist at this depth (STAR A.3)."""
        genomes = {}
        for name in BASELINES:
            with suppress(GenomeError):
                genomes[name] = self.space.named(name)
        return genomes

    def describe(self) -> dict[str, Any]:
        """Description of the data for a report, with the scores of count models that a trained model must beat."""
        places = self.text.spread("validation", self.evaluation.validation_tokens)
        return {**self.text.describe(), "count_models": self.text.baselines("validation", places)}

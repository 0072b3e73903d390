"""Settings of the runs that a protocol consists of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from evodevo.backbone.genome import BackboneGenome
from evodevo.backbone.network import BackboneNetwork
from evodevo.backbone.problem import BASELINES
from evodevo.backbone.protocol.settings import ProtocolSettings
from evodevo.backbone.search_settings import EvolveSettings
from evodevo.backbone.space import BackboneSpace
from evodevo.errors import GenomeError, UsageError
from evodevo.experiments.recipe import Comparison, ExperimentSettings
from evodevo.experiments.settings import NetworkEvaluationSettings
from evodevo.experiments.trials import Role, Trial, Variant
from evodevo.randomness import integer_seed
from evodevo.search.settings import StudySettings
from evodevo.settings import merge, validate

CHECKPOINTS = 5
"""Checkpoints of a training of finalists, where the settings name no number of steps between two."""
STAR, RANDOM = "star", "random"
"""Beginnings of the names of what the search and what random search found, as in ``star-1``."""


def baselines_at(settings: EvolveSettings) -> dict[str, BackboneGenome]:
    """The paper's baselines that exist at this depth."""
    space, genomes = BackboneSpace(settings.space), {}
    for name in BASELINES:
        with suppress(GenomeError):
            genomes[name] = space.named(name)
    return genomes


def baselines(settings: EvolveSettings) -> dict[str, BackboneGenome]:
    """The same, where a comparison needs them.

    Raises:
        UsageError: none exists there.
    """
    genomes = baselines_at(settings)
    if not genomes:
        raise UsageError(
            f"neither {' nor '.join(BASELINES)} exists at a depth of {settings.space.depth}, and a protocol compares "
            "with them; take an even depth from 8 to 24, or a multiple of 24 (space.depth)."
        )
    return genomes


def given(settings: ProtocolSettings) -> dict[str, tuple[str, BackboneGenome]]:
    """Architectures that are finalists without a search: name -> individual, empty where it is none, and genome."""
    space = BackboneSpace(settings.space)
    return {
        f"{STAR}-{place}": ("".join(start.parents), space.from_json(start.genome))
        for place, start in enumerate(settings.study.start, 1)
    }


def cost(settings: EvolveSettings, genome: BackboneGenome) -> dict[str, int]:
    """The static cost that finalists are compared by."""
    evaluation = settings.evaluation
    space = BackboneSpace(settings.space)
    return space.cost(genome, length=evaluation.cost_length, convention=evaluation.convention).to_json()


def search(settings: ProtocolSettings, rate: float, *, random: bool) -> EvolveSettings:
    """The search, or random search with as many evaluations, whose first generation is the same."""
    values = settings.model_dump(mode="json", exclude={"protocol"})
    values["evaluation"]["training"]["optimizer"]["learning_rate"] = rate
    if random:
        values["study"] |= {"algorithm": "random", "algorithm_settings": {}, "baselines": False}
    return validate(EvolveSettings, values, what="settings of the search")


def variant(
    settings: EvolveSettings,
    name: str,
    genome: BackboneGenome,
    *,
    role: Role,
    rates: Sequence[float] | None = None,
    seeds: int | None = None,
    parent: str | None = None,
) -> Variant:
    """One network to be trained."""
    network = BackboneNetwork.of(BackboneSpace(settings.space), genome, tied=settings.evaluation.tied)
    own = None if rates is None else tuple(rates)
    return Variant(name=name, role=role, network=network, learning_rates=own, seeds=seeds, parent=parent or None)


def trial(settings: EvolveSettings, name: str, genome: BackboneGenome) -> Trial:
    """A training of a genome at the settings' learning rate."""
    network = BackboneNetwork.of(BackboneSpace(settings.space), genome, tied=settings.evaluation.tied)
    return Trial(name=name, network=network, learning_rate=settings.evaluation.training.optimizer.learning_rate)


def tuning(settings: ProtocolSettings, arms: Sequence[Variant], title: str) -> ExperimentSettings:
    """Each arm with each learning rate."""
    stages = settings.protocol
    trainings = Trainings("tuning", title, stages.tuning_tokens, stages.learning_rates, stages.curve_points)
    return experiment(settings, arms, trainings)


def training(settings: ProtocolSettings, arms: Sequence[Variant]) -> ExperimentSettings:
    """Each arm for long, at its own rate and with its own number of seeds."""
    stages, title = settings.protocol, "Training of finalists and baselines"
    trainings = Trainings(
        "training", title, stages.final_tokens, stages.learning_rates, stages.curve_points, True, stages.final_warmup
    )
    return experiment(settings, arms, trainings)


@dataclass(frozen=True)
class Trainings:
    """Trainings of a stage.

    Attributes:
        stage: its name.
        title: its title.
        tokens: number of training tokens of each.
        rates: learning rates of the arms that name none.
        curve_points: number of measurements of the validation loss during each.
        keep: whether weights are kept, and checkpoints written.
        warmup: share of the tokens in which the learning rate rises; None for that of the settings.
    """

    stage: str
    title: str
    tokens: int
    rates: Sequence[float]
    curve_points: int
    keep: bool = False
    warmup: float | None = None


def experiment(settings: EvolveSettings, arms: Sequence[Variant], trainings: Trainings) -> ExperimentSettings:
    """The settings of a run of these trainings."""
    evaluation = settings.evaluation
    context, batch = evaluation.language.context_length, evaluation.training.batch_size
    steps = trainings.tokens // (context * batch)
    changes: dict[str, Any] = {"budget": {"steps": steps, "tokens": None}}
    if trainings.warmup is not None:
        changes["optimizer"] = {"warmup": trainings.warmup}
    if trainings.keep and evaluation.training.checkpoint_every is None:
        changes["checkpoint_every"] = max(1, steps // CHECKPOINTS)
    trained = merge(evaluation.training.model_dump(mode="json"), changes)
    wanted = evaluation.validation_tokens
    return ExperimentSettings(
        experiment=Comparison(
            title=trainings.title, arms=tuple(arms), learning_rates=tuple(trainings.rates), chosen_by="loss"
        ),
        evaluation=validate(
            NetworkEvaluationSettings,
            {
                "objectives": ["loss"],
                "task": "language",
                "task_settings": evaluation.language.model_dump(mode="json"),
                "training": trained,
                "validation_samples": None if wanted is None else max(1, wanted // context),
                "test_samples": 0,
                "curve_points": trainings.curve_points,
                "curve_samples": max(1, min(256, (wanted or 1 << 15) // context)),
                "inspected": False,
                "trace_samples": 0,
                "memory_bytes": evaluation.memory_bytes,
                "keep_weights": trainings.keep,
            },
            what=f"settings of the stage {trainings.stage}",
        ),
        study=StudySettings(
            generations=1,
            baselines=False,
            retries=settings.study.retries,
            seed=integer_seed(settings.study.seed, "protocol", trainings.stage),
        ),
        execution=settings.execution,
    )


def final_arms(
    settings: ProtocolSettings,
    finalists: Mapping[str, tuple[str, BackboneGenome]],
    controls: Mapping[str, tuple[str, BackboneGenome]],
    rates: Mapping[str, float],
) -> list[Variant]:
    """Finalists, controls and baselines at their tuned rates; what has none is left out.

    Args:
        settings: settings of the protocol.
        finalists, controls: name -> individual and genome, best first.
        rates: name -> tuned learning rate.
    """
    stages = settings.protocol
    arms: list[tuple[str, BackboneGenome, Role, int, str | None]] = []
    for place, (name, (parent, genome)) in enumerate(finalists.items()):
        arms.append((name, genome, "other", stages.seeds if place < stages.best else 1, parent))
    arms += [(name, genome, "control", stages.seeds, parent) for name, (parent, genome) in controls.items()]
    arms += [(name, genome, "opponent", stages.seeds, None) for name, genome in baselines(settings).items()]
    return [
        variant(settings, name, genome, role=role, rates=(rates[name],), seeds=seeds, parent=parent)
        for name, genome, role, seeds, parent in arms
        if name in rates
    ]

"""Settings of the runs that a comparison of searches consists of."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean

from evodevo.backbone.genome import BackboneGenome
from evodevo.backbone.protocol import derived as protocol
from evodevo.backbone.protocol.plan import PlannedWork, final_works, search_work
from evodevo.backbone.search_comparison.settings import RANDOM, FinalTrainings, SearchArm, SearchComparisonSettings
from evodevo.backbone.search_settings import EvolveSettings
from evodevo.backbone.space import BackboneSpace
from evodevo.experiments.recipe import ExperimentSettings
from evodevo.experiments.trials import Variant
from evodevo.randomness import generator
from evodevo.settings import merge, validate

FINAL, TEST = "training", "test"
SAMPLES = 16
"""Random genomes whose mean FLOPs stand for those of a search."""


def arms(settings: SearchComparisonSettings) -> tuple[SearchArm, ...]:
    """All arms, random search last."""
    return (*settings.search_comparison.arms, SearchArm(name=RANDOM, changes={"study": {"algorithm": RANDOM}}))


def searches(settings: SearchComparisonSettings) -> dict[str, tuple[SearchArm, int]]:
    """Stage -> arm and number of the seed; all arms of a seed come before the next, so that a comparison that was cut
    short has compared them all on the first seeds."""
    numbers = range(settings.search_comparison.seeds)
    return {stage_name(arm.name, number): (arm, number) for number in numbers for arm in arms(settings)}


def stage_name(arm: str, number: int) -> str:
    """``nsga2/0``."""
    return f"{arm}/{number}"


def stages(settings: SearchComparisonSettings) -> tuple[str, ...]:
    """Names of all stages."""
    return (*searches(settings), *((FINAL, TEST) if settings.search_comparison.final is not None else ()))


def shared(settings: SearchComparisonSettings) -> EvolveSettings:
    """The settings outside the arms: a search at the comparison's own size."""
    values = settings.model_dump(mode="json", exclude={"search_comparison"})
    return validate(EvolveSettings, values, what="settings of the searches")


def search(settings: SearchComparisonSettings, arm: SearchArm, number: int, vocabulary: int) -> EvolveSettings:
    """One search; its last generation is the first with which it has its budget.

    Args:
        settings: settings of the comparison.
        arm: the kind of search.
        number: number of the seed.
        vocabulary: tokens; they decide FLOPs.

    Raises:
        UsageError: settings of the arm that no search can have.
    """
    common = shared(settings)
    values = merge(common.model_dump(mode="json"), arm.changes)
    own = arm.changes.get("study", {})
    if "algorithm" in own:  # the settings of one algorithm are not those of another
        values["study"]["algorithm_settings"] = own.get("algorithm_settings", {})
    values["study"] |= {"seed": settings.study.seed + number, "baselines": False}
    found = validate(EvolveSettings, values, what=f"settings of the arm {arm.name!r}")
    wanted = float(common.study.population * common.study.generations)
    if settings.search_comparison.equal == "flops":
        wanted *= mean_flops(common, vocabulary) / mean_flops(found, vocabulary)
    study = found.study.model_copy(update={"generations": generations(found, round(wanted))})
    return found.model_copy(update={"study": study})


def generations(settings: EvolveSettings, evaluations: int) -> int:
    """The fewest generations with so many evaluations."""
    study = settings.study
    if study.mode == "steady":
        return max(1, math.ceil(evaluations / study.population))
    return 1 + max(0, math.ceil((evaluations - study.population) / study.create().offspring))


def evaluations(settings: EvolveSettings) -> int:
    """Number of evaluations of a search."""
    study = settings.study
    later = study.population if study.mode == "steady" else study.create().offspring
    return study.population + (study.generations - 1) * later


def mean_flops(settings: EvolveSettings, vocabulary: int) -> float:
    """FLOPs of the training of a random genome on the whole budget, on average."""
    space, tokens = BackboneSpace(settings.space), settings.evaluation.training.budget.tokens or 0
    genomes = [space.sample(generator(settings.study.seed, n, "comparison")) for n in range(SAMPLES)]
    return tokens * fmean(token_flops(settings, genome, vocabulary) for genome in genomes)


def token_flops(settings: EvolveSettings, genome: BackboneGenome, vocabulary: int) -> float:
    """FLOPs per training token."""
    length = settings.evaluation.language.context_length
    space, tied = BackboneSpace(settings.space), settings.evaluation.tied
    cost = space.cost(genome, length=length, mode="train", convention="actual", vocabulary=vocabulary, tied=tied)
    return cost.flops / length


def at_final_size(settings: SearchComparisonSettings, genome: BackboneGenome) -> BackboneGenome:
    """A found backbone at the comparison's own depth, stacked or trimmed by its motif; any width is that of the space.

    Raises:
        GenomeError: a depth that its motif cannot reach.
    """
    return BackboneSpace(settings.space).at_depth(genome, settings.space.depth)[0]


def final(
    settings: SearchComparisonSettings, stage: FinalTrainings, finalists: Mapping[str, tuple[str, BackboneGenome]]
) -> ExperimentSettings:
    """The trainings at one size of finalists and baselines.

    Args:
        settings: settings of the comparison.
        stage: settings of these trainings.
        finalists: name -> individual and genome at that size.
    """
    variants: Sequence[Variant] = [
        *(
            protocol.variant(settings, name, genome, role="other", parent=individual, seeds=stage.seeds)
            for name, (individual, genome) in finalists.items()
        ),
        *(
            protocol.variant(settings, name, genome, role="opponent", seeds=stage.seeds)
            for name, genome in protocol.baselines(settings).items()
        ),
    ]
    title, rates = "Training of what the searches found", final_rates(settings, stage)
    trainings = protocol.Trainings(FINAL, title, stage.tokens, rates, stage.curve_points, True, stage.warmup)
    return protocol.experiment(settings, variants, trainings)


def final_rates(settings: SearchComparisonSettings, stage: FinalTrainings) -> tuple[float, ...]:
    """Learning rates that are tried."""
    return stage.learning_rates or (settings.evaluation.training.optimizer.learning_rate,)


def works(settings: SearchComparisonSettings, vocabulary: int) -> list[PlannedWork]:
    """All trainings; of what is trained at the end the most that there can be."""
    found = []
    for name, (arm, number) in searches(settings).items():
        one = search(settings, arm, number, vocabulary)
        found.append(search_work(one, name, evaluations(one)))
    stage = settings.search_comparison.final
    if stage is not None:
        networks = len(found) * stage.finalists + len(protocol.baselines(settings))
        training, test = final_works(settings, networks * stage.seeds, stage.tokens, stage.test_tokens)
        tried = training.trainings * len(final_rates(settings, stage))
        found += [replace(training, trainings=tried), test]
    return found

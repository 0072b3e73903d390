"""Recipes that compare searches: algorithms (STAR, Fig. 5.1), their settings (Fig. A.1), scales (Fig. 5.1, right)."""

from __future__ import annotations

from itertools import product
from typing import Any

from evodevo.backbone.evaluation_settings import EvaluationSettings
from evodevo.backbone.protocol.recipes import SIZES, paper, small
from evodevo.backbone.protocol.settings import ProtocolSettings
from evodevo.backbone.search_comparison.settings import (
    FinalTrainings,
    SearchArm,
    SearchComparison,
    SearchComparisonSettings,
)
from evodevo.backbone.space_settings import BackboneSettings
from evodevo.operators.spec import Dimensions
from evodevo.runs.recipe import Recipe, Size, by_size
from evodevo.search.settings import StudySettings
from evodevo.training.settings import Budget

GOALS = ("quality", "parameters")
"""The paper's objectives in these comparisons: predictive quality and parameter count."""
COMPARED = ("nsga2", "genetic", "firefly", "surrogate")
MUTATION = (0.1, 0.2)
CROSSOVER = (1, 2)


def _common(size: Size) -> ProtocolSettings:
    return paper(GOALS, "parameters") if size == "paper" else small(GOALS, "parameters", full=size == "full")


def _settings(
    common: ProtocolSettings,
    comparison: SearchComparison,
    *,
    space: BackboneSettings,
    study: StudySettings,
    tokens: int | None = None,
) -> SearchComparisonSettings:
    """The settings of a protocol, without its stages, and without rungs, which no comparison of the paper has."""
    evaluation: EvaluationSettings = common.evaluation
    if tokens is not None:
        training = evaluation.training.model_copy(update={"budget": Budget(tokens=tokens)})
        evaluation = evaluation.model_copy(update={"training": training})
    return SearchComparisonSettings(
        space=space, evaluation=evaluation, study=study, search_comparison=comparison, execution=common.execution
    )


def algorithms(size: Size) -> SearchComparisonSettings:
    """NSGA-II, GA and FA, the surrogate and random search; ``paper``: 16 genomes, 8 LIVs, 8 generations."""
    common = _common(size)
    space = common.space.model_copy(update={"depth": 8})
    study = {
        "quick": StudySettings(population=8, generations=3, baselines=False),
        "full": StudySettings(population=16, generations=8, baselines=False),
        "paper": StudySettings(population=16, generations=8, baselines=False),
    }[size]
    arms = tuple(SearchArm(name=name, changes={"study": {"algorithm": name}}) for name in COMPARED)
    comparison = SearchComparison(arms=arms, seeds=2 if size == "quick" else 3)
    return _settings(common, comparison, space=space, study=study, tokens=81_920 if size == "full" else None)


def variation(size: Size) -> SearchComparisonSettings:
    """Population, mutation probability and crossover points of NSGA-II: populations of 16 for 8 generations and of 32
    for 4, 10 % and 20 %, 1 and 2 points; ``quick`` has half of both populations. ``paper``: 24 LIVs of width 64."""
    common = _common(size)
    populations = (8, 16) if size == "quick" else (16, 32)
    evaluations = populations[0] * (4 if size == "quick" else 8)
    space = common.space.model_copy(update={"dimensions": Dimensions(width=64)})
    arms = tuple(
        SearchArm(
            name=f"n={population}, p={probability:g}, k={points}",
            changes={
                "study": {"population": population},
                "space": {"mutation_probability": probability, "crossover_points": points},
            },
        )
        for population, probability, points in product(populations, MUTATION, CROSSOVER)
    )
    study = StudySettings(population=populations[0], generations=evaluations // populations[0], baselines=False)
    comparison = SearchComparison(arms=arms, seeds=2 if size == "quick" else 3)
    tokens = {"quick": 20_480, "full": 81_920, "paper": None}[size]
    return _settings(common, comparison, space=space, study=study, tokens=tokens)


def scales(size: Size) -> SearchComparisonSettings:
    """Motifs, reduced width and full size. ``paper``: 8 LIVs of width 768, 24 of width 256 and 24 of width 768, 16
    genomes for 12 generations each; the others have equal training FLOPs."""
    common = _common(size)
    depth, width, motif, narrow = {"quick": (8, 64, 4, 32), "full": (24, 64, 8, 32), "paper": (24, 768, 8, 256)}[size]
    space = common.space.model_copy(update={"depth": depth, "dimensions": Dimensions(width=width)})
    changes: dict[str, dict[str, Any]] = {
        "motif": {"depth": motif},
        # As many heads as at the full width.
        "width": {"dimensions": {"width": narrow, **({} if size == "paper" else {"head_size": 8})}},
        "full": {},
    }
    tokens = common.evaluation.training.budget.tokens or 0
    final = {
        "quick": FinalTrainings(finalists=2, tokens=4 * tokens, test_tokens=65_536, curve_points=2),
        "full": FinalTrainings(finalists=4, tokens=5 * tokens, test_tokens=524_288),
        "paper": FinalTrainings(tokens=common.protocol.final_tokens, warmup=common.protocol.final_warmup),
    }[size]
    study = {
        "quick": StudySettings(population=8, generations=2, baselines=False),
        "full": StudySettings(population=16, generations=6, baselines=False),
        "paper": StudySettings(population=16, generations=12, baselines=False),
    }[size]
    arms = tuple(SearchArm(name=name, changes={"space": own} if own else {}) for name, own in changes.items())
    comparison = SearchComparison(
        arms=arms, seeds=2 if size == "quick" else 3, equal="evaluations" if size == "paper" else "flops", final=final
    )
    return _settings(common, comparison, space=space, study=study)


ALGORITHMS = Recipe(
    "backbone.algorithms",
    "NSGA-II, GA, FA, surrogate and random search under equal evaluations (Fig. 5.1)",
    ("evolve",),
    by_size(algorithms),
    sizes=SIZES,
)
VARIATION = Recipe(
    "backbone.variation",
    "population, mutation probability and crossover points of NSGA-II (Fig. A.1)",
    ("evolve",),
    by_size(variation),
    sizes=SIZES,
)
SCALES = Recipe(
    "backbone.scales",
    "motifs, reduced width and full size under one budget, compared at the full size (Fig. 5.1)",
    ("evolve",),
    by_size(scales),
    sizes=SIZES,
)

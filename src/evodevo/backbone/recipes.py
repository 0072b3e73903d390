"""Recipes that evolve language-model backbones (STAR)."""

from __future__ import annotations

from typing import Literal

from evodevo.backbone.evaluation_settings import EvaluationSettings
from evodevo.backbone.search_settings import EvolveSettings
from evodevo.backbone.space_settings import BackboneSettings
from evodevo.operators.spec import Dimensions
from evodevo.runs.recipe import Recipe, Size, by_size
from evodevo.search.settings import StudySettings
from evodevo.tasks.text.language import LanguageSettings
from evodevo.training.settings import Budget, OptimizerSettings, TrainingSettings

DESIGNS: tuple[Literal["hybrid", "sharing"], ...] = ("hybrid", "sharing")
"""Designs that begin a search, in turn."""


def demo(size: Size) -> EvolveSettings:
    """The search of ``make demo``: few and small candidates, each trained well past a byte-bigram model."""
    full = size == "full"
    return EvolveSettings(
        space=BackboneSettings(
            depth=8, operators="plan", designs=DESIGNS, distance="network", dimensions=Dimensions(width=64)
        ),
        evaluation=EvaluationSettings(
            objectives=("quality", "cache"),
            language=LanguageSettings(context_length=128),
            training=TrainingSettings(
                budget=Budget(tokens=2_000_000 if full else 200_000),
                # The lowest mean loss over the baselines at 200,000 tokens (docs/results.md); not measured at 2 M.
                optimizer=OptimizerSettings(learning_rate=5e-3 if full else 1e-2, warmup=0.1),
                batch_size=4,
            ),
            validation_tokens=65_536,
            seconds=3600.0 if full else 600.0,
            memory_bytes=4 * 2**30,
        ),
        study=StudySettings(population=16 if full else 8, generations=12 if full else 4, confirmations=2),
    )


def small(size: Size) -> EvolveSettings:
    """Quality against cache at 12 LIVs: the smallest setting at which the search has room."""
    full = size == "full"
    return EvolveSettings(
        space=BackboneSettings(
            depth=12, operators="plan", designs=DESIGNS, distance="network", dimensions=Dimensions(width=64)
        ),
        evaluation=EvaluationSettings(
            objectives=("quality", "cache"),
            language=LanguageSettings(context_length=256),
            training=TrainingSettings(
                budget=Budget(tokens=8_000_000 if full else 400_000),
                optimizer=OptimizerSettings(learning_rate=5e-3, warmup=0.1),
                batch_size=4,
            ),
            validation_tokens=131_072,
            seconds=4 * 3600.0 if full else 1200.0,
            memory_bytes=4 * 2**30,
        ),
        study=StudySettings(population=16, generations=18 if full else 6, confirmations=3),
    )


DEMO = Recipe(
    "backbone.demo", "8 LIVs of width 64 on Python source: a whole search in minutes", ("evolve",), by_size(demo)
)
SMALL = Recipe(
    "backbone.small", "12 LIVs of width 64, quality against cache, three fresh seeds", ("evolve",), by_size(small)
)

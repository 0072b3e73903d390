"""Recipes of the paper's three protocols: quality, quality and size, quality and cache (STAR, sections 5.2 to 5.4)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from evodevo.backbone.evaluation_settings import EvaluationSettings
from evodevo.backbone.protocol.settings import Limit, ProtocolSettings, Stages
from evodevo.backbone.recipes import DESIGNS
from evodevo.backbone.space_settings import BackboneSettings
from evodevo.operators.spec import Dimensions
from evodevo.runs.recipe import Recipe, Size, by_size
from evodevo.search.rungs import RungSettings
from evodevo.search.settings import StudySettings
from evodevo.tasks.text.language import LanguageSettings
from evodevo.training.settings import Budget, OptimizerSettings, TrainingSettings

SIZES: tuple[Size, ...] = ("quick", "full", "paper")
CACHE_LENGTH = 4096
"""Tokens in the context for cache and size: the paper's ``bytes 4K``."""
MOST_GIVEN = 64
"""Most architectures that are trained without a search."""
BATCH_TOKENS = 64 * 4096
"""The paper's 0.25M tokens."""


def small(objectives: tuple[str, ...], limit: Limit, *, full: bool) -> ProtocolSettings:
    """For two cores: quick takes about a quarter of an hour, full about two hours, with rungs."""
    tokens = 204_800 if full else 40_960
    return ProtocolSettings(
        space=BackboneSettings(
            depth=8, operators="plan", designs=DESIGNS, distance="network", dimensions=Dimensions(width=64)
        ),
        evaluation=EvaluationSettings(
            objectives=objectives,
            language=LanguageSettings(context_length=128),
            training=TrainingSettings(
                budget=Budget(tokens=tokens),
                optimizer=OptimizerSettings(learning_rate=1e-2, warmup=0.1),
                batch_size=4,
            ),
            validation_tokens=32_768 if full else 16_384,
            length=CACHE_LENGTH,
            seconds=1800.0 if full else 600.0,
            memory_bytes=4 * 2**30,
            keep_weights=False,
        ),
        study=StudySettings(
            population=16 if full else 8, generations=18 if full else 3, rungs=RungSettings() if full else None
        ),
        protocol=Stages(
            learning_rates=(2.5e-3, 5e-3, 1e-2, 2e-2) if full else (5e-3, 1e-2, 2e-2),
            tuning_tokens=2 * tokens,
            limit=limit,
            final_tokens=10 * tokens,
            test_tokens=524_288 if full else 65_536,
            curve_points=8 if full else 2,
        ),
    )


def demo(size: Size) -> ProtocolSettings:
    """The protocol of ``make demo``: all stages in less than eight minutes on two cores, one seed each."""
    whole = small(("quality", "cache"), "cache_bytes", full=size == "full")
    tokens = 81_920
    if size == "full":
        return whole
    values = {
        "evaluation": whole.evaluation.model_copy(
            update={"training": whole.evaluation.training.model_copy(update={"budget": Budget(tokens=tokens)})}
        ),
        "study": whole.study.model_copy(update={"generations": 2}),
        "protocol": whole.protocol.model_copy(
            update={
                "tuning_tokens": tokens,
                "finalists": 1,
                "best": 1,
                "seeds": 1,
                "final_tokens": 8 * tokens,
            }
        ),
    }
    return whole.model_copy(update=values)


def paper(objectives: tuple[str, ...], limit: Limit) -> ProtocolSettings:
    """The paper's own sizes (sections 5, A.2): 24 LIVs of width 768, 4096 tokens; for a GPU, and the user's own text.

    The batch has 0.25M tokens. Its samples are computed in parts, so that one device holds them.
    """
    return ProtocolSettings(
        space=BackboneSettings(depth=24, dimensions=Dimensions(width=768)),
        evaluation=EvaluationSettings(
            objectives=objectives,
            language=LanguageSettings(context_length=4096, tokenizer="bpe", vocabulary=32_768),
            training=TrainingSettings(
                budget=Budget(tokens=5_000 * BATCH_TOKENS),
                optimizer=OptimizerSettings(learning_rate=8e-4, warmup=0.1),
                batch_size=64,
                parts=16,
                checkpointing="auto",
                precision="bfloat16",
                checkpoint_every=2500,
            ),
            validation_tokens=500_000_000,
            convention="star",
            keep_weights=False,
        ),
        study=StudySettings(population=16, generations=18),
        protocol=Stages(
            learning_rates=(4e-4, 8e-4, 1.6e-3),
            tuning_tokens=5_000 * BATCH_TOKENS,
            search_rate="given",
            limit=limit,
            final_tokens=20_000 * BATCH_TOKENS,
            final_warmup=0.075,
            best=8,
        ),
    )


def deep(size: Size) -> ProtocolSettings:
    """Given backbones, stacked, beside the baselines at that depth. ``paper``: 48 LIVs of width 2048 (section 5.4,
    Tables 5.2 and A.3), 50,000 steps of 0.75M tokens; else twice the depth of the searches of that size."""
    objectives: tuple[str, ...] = ("quality", "cache")
    whole = (
        paper(objectives, "cache_bytes") if size == "paper" else small(objectives, "cache_bytes", full=size == "full")
    )
    width, training = whole.space.dimensions.width, whole.evaluation.training
    stages: dict[str, Any] = {"finalists_from": "start", "controls": 0, "best": MOST_GIVEN}
    if size == "paper":
        width, batch = 2048, 3 * training.batch_size
        training = training.model_copy(update={"batch_size": batch, "parts": batch // 2})
        stages |= {"final_tokens": 50_000 * 3 * BATCH_TOKENS, "final_warmup": 0.07, "seeds": 1}
    return whole.model_copy(
        update={
            "space": whole.space.model_copy(
                update={"depth": 2 * whole.space.depth, "dimensions": Dimensions(width=width)}
            ),
            "evaluation": whole.evaluation.model_copy(update={"training": training}),
            "study": StudySettings(population=MOST_GIVEN, rungs=whole.study.rungs),
            "protocol": whole.protocol.model_copy(update=stages),
        }
    )


def sized(objectives: tuple[str, ...], limit: Limit) -> Callable[[Size], ProtocolSettings]:
    """Settings by size."""

    def settings(size: Size) -> ProtocolSettings:
        return paper(objectives, limit) if size == "paper" else small(objectives, limit, full=size == "full")

    return settings


def _recipe(name: str, summary: str, objectives: tuple[str, ...], limit: Limit) -> Recipe:
    return Recipe(f"backbone.{name}", summary, ("evolve",), by_size(sized(objectives, limit)), sizes=SIZES)


DEMO = Recipe(
    "backbone.demo_protocol",
    "what make demo runs: the paper's protocol in minutes, one seed each",
    ("evolve",),
    by_size(demo),
)
QUALITY = _recipe(
    "quality", "the paper's protocol for quality: search, finalists, test, table", ("quality",), "parameters"
)
SIZE = _recipe("size", "the paper's protocol for quality and size", ("quality", "parameters"), "parameters")
CACHE = _recipe("cache", "the paper's protocol for quality and cache", ("quality", "cache"), "cache_bytes")
DEEP = Recipe(
    "backbone.deep",
    "backbones that you name, stacked to twice the depth, against baselines there (Table 5.2)",
    ("evolve",),
    by_size(deep),
    sizes=SIZES,
)

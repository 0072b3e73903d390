"""Settings of a comparison of searches, without torch."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from evodevo.backbone.protocol.settings import Limit
from evodevo.backbone.search_settings import EvolveSettings
from evodevo.settings import Settings

RANDOM = "random"
"""Name of the arm that every comparison has: random search with the budget of the others."""


class SearchArm(Settings):
    """One kind of search.

    Attributes:
        name: name in tables.
        changes: settings in which its searches differ, by room: space, evaluation, study.
    """

    name: str = Field(min_length=1, max_length=40, pattern=r"^[^/]+$")
    changes: dict[str, dict[str, Any]] = Field(default_factory=dict)


class FinalTrainings(Settings):
    """Trainings of the networks that the searches found, at the size of the comparison's own space.

    Attributes:
        finalists: largest number of individuals of each search that are chosen (STAR, section 5: 8).
        limit: cost at that size in which a finalist must be below every baseline: parameters or cache_bytes.
        tokens: number of training tokens of finalists and baselines.
        warmup: share of these tokens in which the learning rate rises, 0 to 1; the search's if left out.
        learning_rates: learning rates that are tried for every network, the lowest validation loss decides; the
            search's alone if left out.
        seeds: number of seeds of each network.
        test_tokens: number of predicted tokens of the test split; None for all.
        curve_points: number of measurements of the validation loss during each training.
    """

    finalists: int = Field(default=8, ge=1, le=1000)
    limit: Limit = "parameters"
    tokens: int = Field(ge=1)
    warmup: float | None = Field(default=None, ge=0, lt=1)
    learning_rates: tuple[Annotated[float, Field(gt=0)], ...] = ()
    seeds: int = Field(default=1, ge=1, le=1000)
    test_tokens: int | None = Field(default=None, ge=1)
    curve_points: int = Field(default=4, ge=1, le=256)


class SearchComparison(Settings):
    """The searches that are compared.

    Attributes:
        arms: kinds of search; random search is always compared too, and is not named.
        seeds: number of seeds with which each kind searches. Of one seed, searches of equal population begin with the
            same generation.
        equal: budget that all searches have in common: ``evaluations`` (population times generations of the settings
            outside the arms) or ``flops`` (as many evaluations as the FLOPs of so many mean random genomes of the
            comparison's own space pay for).
        final: trainings of what the searches found at one size; None compares the searches by their own scores, which
            needs searches of one size.
    """

    arms: tuple[SearchArm, ...] = Field(min_length=1)
    seeds: int = Field(default=3, ge=1, le=1000)
    equal: Literal["evaluations", "flops"] = "evaluations"
    final: FinalTrainings | None = None

    @model_validator(mode="after")
    def _names_differ(self) -> Self:
        names = [RANDOM, *(arm.name for arm in self.arms)]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            own = "; random search is an arm of every comparison" if twice == RANDOM else ""
            raise ValueError(f"two arms are named {twice!r}{own}")
        sized = [
            arm.name for arm in self.arms if {"depth", "depth_range", "dimensions"} & set(arm.changes.get("space", {}))
        ]
        if self.final is None and sized:
            raise ValueError(
                f"networks of {sized[0]!r} have another size, at which scores are not comparable; give "
                "search_comparison.final, which trains what was found at one size"
            )
        return self


class SearchComparisonSettings(EvolveSettings):
    """All settings of a comparison of searches: those that all arms share, and the arms.

    Attributes:
        search_comparison: the arms.
    """

    search_comparison: SearchComparison

    @model_validator(mode="after")
    def _are_comparable(self) -> Self:
        comparison, evaluation = self.search_comparison, self.evaluation
        if evaluation.training.budget.tokens is None:
            raise ValueError("searches are compared at equal tokens; give evaluation.training.budget.tokens")
        final, step = comparison.final, evaluation.training.batch_size * evaluation.language.context_length
        if final is not None and final.tokens < step:
            raise ValueError(
                f"search_comparison.final.tokens is {final.tokens:,}, less than one batch of {step:,} tokens"
            )
        if final is not None and evaluation.objectives[0].partition(":")[0] not in ("quality", "perplexity"):
            raise ValueError("the first objective is quality or perplexity: finalists are chosen by it")
        return self

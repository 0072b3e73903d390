"""Settings of a protocol, without torch."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from evodevo.backbone.search_settings import EvolveSettings
from evodevo.settings import Settings

Limit = Literal["parameters", "cache_bytes"]


class Stages(Settings):
    """The stages around a search.

    Attributes:
        learning_rates: learning rates that are tried for every baseline and every finalist; the lowest validation loss
            decides.
        tuning_tokens: number of training tokens of each of these trials.
        search_rate: learning rate of the candidates: ``tuned`` is the one with the lowest mean validation loss over the
            baselines, ``given`` that of the training settings of the evaluation.
        finalists_from: source of the finalists: ``search``; or ``start``, the architectures of ``study.start``,
            whatever they cost, without a search.
        finalists: largest number of individuals that are chosen from the search (STAR, section 5: 8).
        controls: number of individuals that are chosen from random search by the same rule, and trained alike.
        limit: cost in which a finalist must be below every baseline: parameters or cache_bytes.
        final_tokens: number of training tokens of finalists, controls and baselines.
        final_warmup: share of these tokens in which the learning rate rises, 0 to 1; the search's if left out.
        best: number of finalists, first by validation in the search, that are trained with all seeds.
        seeds: number of seeds of these, of the controls and of the baselines; other finalists have one.
        test_tokens: number of predicted tokens of the test split; None for all.
        curve_points: number of measurements of the validation loss during each training outside the search.
        tasks: files or folders of questions that the final networks answer, after the test split; see
            ``tasks.questions``.
    """

    learning_rates: tuple[Annotated[float, Field(gt=0)], ...] = Field(min_length=1)
    tuning_tokens: int = Field(ge=1)
    search_rate: Literal["tuned", "given"] = "tuned"
    # Not written where it is the default, so that protocols from before it go on.
    finalists_from: Literal["search", "start"] = Field(default="search", exclude_if=lambda value: value == "search")
    finalists: int = Field(default=8, ge=1, le=1000)
    controls: int = Field(default=1, ge=0, le=1000)
    limit: Limit
    final_tokens: int = Field(ge=1)
    final_warmup: float | None = Field(default=None, ge=0, lt=1)
    best: int = Field(default=3, ge=0, le=1000)
    seeds: int = Field(default=3, ge=1, le=1000)
    test_tokens: int | None = Field(default=None, ge=1)
    curve_points: int = Field(default=8, ge=1, le=256)
    tasks: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _rates_differ(self) -> Self:
        if len(set(self.learning_rates)) != len(self.learning_rates):
            raise ValueError("a learning rate occurs twice in learning_rates")
        return self


class ProtocolSettings(EvolveSettings):
    """All settings of a protocol: those of its search, and its stages.

    Attributes:
        protocol: settings of the stages around the search.
    """

    protocol: Stages

    @model_validator(mode="after")
    def _budgets_are_in_tokens(self) -> Self:
        tokens = self.evaluation.training.budget.tokens
        step = self.evaluation.training.batch_size * self.evaluation.language.context_length
        if tokens is None:
            raise ValueError("a protocol compares trainings at equal tokens; give evaluation.training.budget.tokens")
        for name in ("tuning_tokens", "final_tokens"):
            if getattr(self.protocol, name) < step:
                raise ValueError(
                    f"protocol.{name} is {getattr(self.protocol, name):,}, less than one batch of {step:,} tokens"
                )
        if self.evaluation.objectives[0].partition(":")[0] not in ("quality", "perplexity"):
            raise ValueError(
                "the first objective of a protocol is quality or perplexity: its finalists are chosen by it"
            )
        if self.study.algorithm == "random":
            raise ValueError("study.algorithm is random, which every protocol runs beside its search; choose another")
        return self

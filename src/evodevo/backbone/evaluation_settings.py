"""Settings of one evaluation, without torch."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from evodevo.backbone.recall.settings import RecallProbeSettings
from evodevo.experiments.settings import NetworkEvaluationSettings
from evodevo.settings import NEW, Settings
from evodevo.tasks.text.language import LanguageSettings
from evodevo.training.settings import TrainingSettings

MOST_AT_ONCE = 1 << 15
"""Tokens that are measured at once, so that long contexts need no more memory than short ones."""


class EvaluationSettings(Settings):
    """The settings of a genome's evaluation.

    Attributes:
        objectives: Names of the objectives, each with ``:minimise`` or ``:maximise`` where the other direction is
            wanted.
        language: Settings of the text: data, tokenizer, context length.
        tied: Whether the head is the embedding.
        training: Budget and optimiser of every candidate.
        validation_tokens: Number of predicted tokens of the validation split; None for all.
        validation_batch: Number of windows that are measured at once, where they hold at most ``MOST_AT_ONCE`` tokens,
            but at least a part of the training's batch; None for the training's batch.
        length: Number of tokens for which cache, FLOPs and latency are computed; the task's context length if left out.
        convention: Convention of the cost model (``operators/cost.py``).
        max_parameters: Largest number of parameters; a genome above it is refused before training.
        max_cache_bytes: Largest cache in bytes; a genome above it is refused before training.
        seconds: Wall-clock limit of one evaluation in seconds; None = no limit.
        memory_bytes: Memory limit of one evaluation in bytes; None = no limit.
        keep_weights: Whether trained weights are kept in the store.
        recall: Sequences and budget of the objectives mqar, noisy_recall, induction and selective_copying, each of
            which trains a network of its own.
    """

    objectives: tuple[str, ...] = ("quality", "cache")
    language: LanguageSettings = LanguageSettings()
    tied: bool = False
    training: TrainingSettings
    validation_tokens: int | None = Field(default=65_536, ge=1)
    validation_batch: int | None = Field(default=None, ge=1, le=2**16, json_schema_extra={NEW: 32})
    length: int | None = Field(default=None, ge=1, le=1 << 24)
    convention: Literal["star", "actual"] = "actual"
    max_parameters: int | None = Field(default=None, ge=1)
    max_cache_bytes: int | None = Field(default=None, ge=0)
    seconds: float | None = Field(default=None, gt=0)
    memory_bytes: int | None = Field(default=None, gt=0)
    keep_weights: bool = True
    recall: RecallProbeSettings = RecallProbeSettings()

    @model_validator(mode="after")
    def _a_batch_fits(self) -> Self:
        tokens, batch = self.training.budget.tokens, self.training.batch_size * self.language.context_length
        if tokens is not None and tokens < batch:
            raise ValueError(
                f"a budget of {tokens:,} tokens is less than one batch of {batch:,} (training.batch_size times "
                "language.context_length); raise training.budget.tokens or make the batch smaller"
            )
        if self.training.budget.flops is not None:
            raise ValueError("backbones are not trained for a number of FLOPs; give tokens, steps or seconds")
        return self

    @property
    def windows_at_once(self) -> int:
        """Windows of the validation split that are measured at once."""
        if self.validation_batch is None:
            return self.training.batch_size
        wanted = min(self.validation_batch, MOST_AT_ONCE // self.language.context_length)
        return max(self.training.batch_size // self.training.parts, wanted)

    @property
    def cost_length(self) -> int:
        """Tokens in the context for cache, FLOPs and latency."""
        return self.length or self.language.context_length

    def of_networks(self) -> NetworkEvaluationSettings:
        """The same for the evaluation of networks of any kind."""
        return NetworkEvaluationSettings(
            objectives=self.objectives,
            task="language",
            task_settings=self.language.model_dump(mode="json"),
            training=self.training,
            trace_samples=0,
            seconds=self.seconds,
            memory_bytes=self.memory_bytes,
            keep_weights=self.keep_weights,
        )

"""Settings of the small trainings behind the objectives of recall, without torch."""

from __future__ import annotations

from pydantic import Field

from evodevo.settings import Settings

RECALL_OBJECTIVES = ("mqar", "noisy_recall", "induction", "selective_copying")
"""Objectives that train a network of their own; each is named as its task."""


class RecallProbeSettings(Settings):
    """Sequences and budget; all else of a task is its default."""

    length: int = Field(default=32, ge=16, le=4096, description="number of tokens in a sequence")
    vocabulary: int = Field(default=32, ge=16, le=32_768, description="number of token ids of the task")
    steps: int = Field(default=400, ge=1, le=1_000_000, description="number of optimiser steps of a training")
    batch_size: int = Field(default=32, ge=1, le=65_536, description="number of sequences in a batch")
    learning_rate: float = Field(default=1e-2, gt=0, description="highest learning rate")

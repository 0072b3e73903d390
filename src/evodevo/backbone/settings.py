"""The settings of models, without torch, so that recipes and the command line can check them."""

from __future__ import annotations

from pydantic import Field

from evodevo.settings import Settings


class LanguageModelSettings(Settings):
    """What turns a backbone into a language model.

    Attributes:
        vocabulary: tokens V.
        tied: the head is the embedding.
    """

    vocabulary: int = Field(ge=2, le=1 << 24)
    tied: bool = False


class SamplingSettings(Settings):
    """How the next token is drawn.

    Attributes:
        temperature: 0 takes the most likely token.
        top_k: only the k most likely; 0 for all.
        top_p: only the most likely whose probabilities sum to p (nucleus).
    """

    temperature: float = Field(default=1.0, ge=0.0, le=100.0)
    top_k: int = Field(default=0, ge=0)
    top_p: float = Field(default=1.0, gt=0.0, le=1.0)

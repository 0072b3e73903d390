"""The sampling of the next token by a trained model that writes; no torch here."""

from __future__ import annotations

from pydantic import Field

from evodevo.settings import Settings


class SamplingSettings(Settings):
    """The settings for drawing the next token.

    Attributes:
        temperature: 0 takes the most likely token.
        top_k: only the k most likely; 0 for all.
        top_p: only the most likely whose probabilities sum to p (nucleus).
    """

    temperature: float = Field(default=1.0, ge=0.0, le=100.0)
    top_k: int = Field(default=0, ge=0)
    top_p: float = Field(default=1.0, gt=0.0, le=1.0)

"""The settings of models, without torch, so that recipes and the command line can check them."""

from __future__ import annotations

from pydantic import Field

from evodevo.settings import Settings


class LanguageModelSettings(Settings):
    """The settings that turn a backbone into a language model.

    Attributes:
        vocabulary: tokens V.
        tied: the head is the embedding.
    """

    vocabulary: int = Field(ge=2, le=1 << 24)
    tied: bool = False

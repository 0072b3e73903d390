"""Plain networks as data: one encoder per kind of input, concatenation, and a head."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from evodevo.settings import Settings

ImageEncoder = Literal["residual", "patches"]
TextEncoder = Literal["terms", "recurrent"]
NumberEncoder = Literal["mlp", "residual", "pieces"]


class PlainStructure(Settings):
    """A network without modules.

    Attributes:
        image: ``residual``: 3 x 3 convolutions in residual blocks with group norm; ``patches``: a linear map of each of
            at most 8 x 8 patches, ReLU, and a linear map of them all.
        text: ``terms``: weighted mean of embeddings of words and pairs of words, and a linear map of their weights to
            the logits; ``recurrent``: an LSTM over the words, both ways, mean and maximum.
        numbers: ``mlp``; ``residual``: residual blocks with layer norm; ``pieces``: each number in its piecewise-linear
            encoding, then an MLP (Gorishniy et al. 2022).
        width: Width of encodings.
        channels: Channels of the first stage of ``residual`` images; doubled in each further one.
        fine: Images keep their resolution in the first stage, where they are small.
        hidden: Units of the head where there are several kinds of input.
        dropout: Dropout on encodings, and inside encoders of numbers.
        word_dropout: Share of the words of a training sample that are replaced by the unknown word or left out.
    """

    image: ImageEncoder | None = None
    text: TextEncoder | None = None
    numbers: NumberEncoder | None = None
    width: int = Field(default=64, ge=1, le=4096)
    channels: int = Field(default=24, ge=8, le=1024, multiple_of=8)
    fine: bool = False
    hidden: int = Field(default=128, ge=1, le=4096)
    dropout: float = Field(default=0.2, ge=0, lt=1)
    word_dropout: float = Field(default=0.1, ge=0, lt=1)

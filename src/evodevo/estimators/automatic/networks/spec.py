"""Plain networks as data: one encoder per kind of input, concatenation, and a head."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from evodevo.estimators.automatic.features.package_root import MOST_PIXELS
from evodevo.multitask.paths.convolution.spec import ConvolutionStructure
from evodevo.settings import Settings

ImageEncoder = Literal["residual", "patches", "root"]
TextEncoder = Literal["terms", "recurrent"]
NumberEncoder = Literal["mlp", "residual", "pieces"]


class PlainStructure(Settings):
    """A network without modules.

    Attributes:
        image: ``residual``: 3 x 3 convolutions in residual blocks with group norm; ``patches``: a linear map of each of
            at most 8 x 8 patches, ReLU, and a linear map of them all; ``root``: the convolutions of a root of the
            package, all of which go on learning.
        text: ``terms``: weighted mean of embeddings of words and pairs of words, and a linear map of their weights to
            the logits; ``recurrent``: an LSTM over the words, both ways, mean and maximum.
        numbers: ``mlp``; ``residual``: residual blocks with layer norm; ``pieces``: each number in its piecewise-linear
            encoding, then an MLP (Gorishniy et al. 2022).
        width: Width of encodings.
        channels: Channels of the first stage of ``residual`` images; doubled in each further one.
        root: Structure of ``root`` images, without a head.
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
    root: ConvolutionStructure | None = Field(default=None, exclude_if=lambda value: value is None)
    fine: bool = False
    hidden: int = Field(default=128, ge=1, le=4096)
    dropout: float = Field(default=0.2, ge=0, lt=1)
    word_dropout: float = Field(default=0.1, ge=0, lt=1)

    @model_validator(mode="after")
    def _root_is_described(self) -> Self:
        if (self.image == "root") != (self.root is not None):
            raise ValueError("a root has a structure, and nothing else has one")
        if self.root is not None and (self.root.classes or self.root.image_size > MOST_PIXELS):
            raise ValueError(f"a root has no head, and reads images of {MOST_PIXELS} pixels at most")
        return self

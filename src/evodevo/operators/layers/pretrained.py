"""The layer of kind ``pretrained``.

Legend: S positions, d channels of the pretrained model.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from evodevo.errors import UsageError
from evodevo.operators.cost import Work
from evodevo.operators.layers.base import LayerSpec
from evodevo.operators.layers.mlp import feedforward_work
from evodevo.operators.layers.transformer import score_products
from evodevo.operators.pretrained.spec import PretrainedSizes, read_sizes

if TYPE_CHECKING:
    from evodevo.operators.base import Operator
    from evodevo.operators.source.sheet import SourceSheet


class PretrainedLayer(LayerSpec):
    """One encoder layer of a pretrained Hugging Face model (H-Model 6.7).

    Source: docs/spec/h_model.md#pretrained-layers.

    Attributes:
        path: a folder with config.json and model.safetensors, or a name in the local Hugging Face cache.
        index: number of the layer, from 0; 0 is the first block after the embeddings.
        train: ``none`` freezes it; ``all`` fine-tunes it.
        digest: SHA-256 of the safetensors file; checked where it is given, filled in by the run that first reads it.
    """

    kind: Literal["pretrained"] = "pretrained"
    path: str = Field(min_length=1, max_length=4096)
    index: int = Field(ge=0, le=1023)
    train: Literal["none", "all"] = "none"
    digest: str | None = Field(default=None, pattern=r"^[0-9a-f]{64}$")

    def read_sizes(self, width: int) -> PretrainedSizes:
        """Sizes of the layer, from the configuration of its model.

        Raises:
            UsageError: the model has other channels than d, or fewer layers.
            NotFoundError, DataError: the configuration is absent or not readable.
        """
        sizes = read_sizes(self.path)
        if sizes.width != width:
            raise UsageError(
                f"the model at {self.path} has {sizes.width} channels, not {width}: set the layer's width to "
                f"{sizes.width}, and adapters are put around it."
            )
        if self.index >= sizes.layers:
            raise UsageError(f"layer {self.index} of {self.path}: the model has layers 0 to {sizes.layers - 1}.")
        return sizes

    def own_parameters(self, width: int, causal: bool) -> int:
        """See ``PretrainedSizes.parameters``."""
        return self.read_sizes(width).parameters

    def own_work(self, width: int, length: int, *, causal: bool, visible: bool) -> Work:
        """As a transformer that is not causal."""
        sizes = self.read_sizes(width)
        products = 8 * length * width**2 + score_products(width, length, half=False)
        return Work(products) + feedforward_work(width, sizes.feedforward, length)

    def build(self, width: int, *, causal: bool, residual: bool) -> Operator:
        """See ``LayerSpec``; the model's files are read."""
        self.read_sizes(width)
        if causal:
            raise UsageError("pretrained encoder layers look both ways; a causal model cannot have them.")
        if not residual:
            raise UsageError("a pretrained layer was trained with its residuals; use other layers in this control.")
        from evodevo.operators.pretrained.layers import pretrained_block

        return pretrained_block(self.path, self.index, train=self.train, digest=self.digest)

    def source(self, sheet: SourceSheet, width: int, *, causal: bool, residual: bool) -> str:
        """
        Raises:
            UsageError: Always: its class belongs to transformers.
        """
        raise UsageError(
            f"layer {self.index} of the pretrained model at {self.path} has no source: its classes belong to"
            " transformers; take --to pt2."
        )

    def family(self, width: int) -> str:
        """See ``LayerSpec``."""
        return "attention"

    def sizes(self, width: int) -> str:
        """Number of the layer and name of the model."""
        return f"layer {self.index} of {self.path.rstrip('/').rpartition('/')[2]}"

    @property
    def donor(self) -> tuple[str, int]:
        """See ``LayerSpec``."""
        return self.path, self.index

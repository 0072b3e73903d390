"""Any layer of the library as a node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, Self

import numpy as np
from pydantic import ValidationError

from evodevo.errors import GenomeError, UsageError
from evodevo.module_zoo.modules.attributes import CATEGORY_CHANCE
from evodevo.module_zoo.modules.nodes.base import NodeSpec
from evodevo.operators.cost import Work
from evodevo.operators.layers.base import Layer, LayerSpec
from evodevo.operators.layers.cost import layer_parameters, layer_work

if TYPE_CHECKING:
    from evodevo.operators.base import Operator
    from evodevo.operators.source.sheet import SourceSheet

USUAL_WIDTH = 64
"""Channels where a graph alone does not determine them; the family of a LIV does not depend on them."""


class LayerNode(NodeSpec):
    """Any operator of the library: a LIV by its operator genome, an H-Model, a span of a backbone (operators/layers).

    It is a whole block, norm and residual inside, and keeps the width. Opaque to splicing. Costs are the layer's.
    """

    type: Literal["layer"] = "layer"
    layer: Layer

    def answer_width(self, widths: Sequence[int]) -> int:
        """See ``NodeSpec``."""
        width = widths[0]
        try:
            layer_parameters(self.layer, width, causal=False)
            self.layer.check_part()
        except (UsageError, ValidationError) as error:  # sizes that no settings allow are refused as settings are
            reason = error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error)
            raise GenomeError(
                f"node {self.id!r}, a layer of kind {self.layer.kind!r} at {width} channels: {reason}"
            ) from None
        return width

    def parameters(self, width: int) -> int:
        """See ``NodeSpec``."""
        return layer_parameters(self.layer, width, causal=False)

    def work(self, width: int, length: int) -> Work:
        """See ``NodeSpec``."""
        return layer_work(self.layer, width, length, causal=False, visible=False)

    def build(self, width: int) -> Operator:
        """See ``NodeSpec``."""
        from evodevo.operators.layers.build import build_layer

        return build_layer(self.layer, width, causal=False)

    def source(self, sheet: SourceSheet, width: int) -> str:
        """See ``NodeSpec``."""
        from evodevo.operators.source.rows import layer_source

        return layer_source(self.layer, sheet, width, causal=False)

    def mutated(self, width: int, rng: np.random.Generator, scale: float) -> Self:
        """With the layer mutated as its kind mutates, with chance 0.1."""
        layer = self.layer.mutated(self.layer.width or width, rng, CATEGORY_CHANCE * scale)
        return self.model_copy(update={"layer": layer})

    @property
    def label(self) -> str:
        """The label of the layer."""
        return self.layer.label

    @property
    def family(self) -> str:
        """The family of the layer."""
        return self.layer.family(self.layer.width or USUAL_WIDTH)

    @property
    def held_layer(self) -> LayerSpec:
        """The layer."""
        return self.layer

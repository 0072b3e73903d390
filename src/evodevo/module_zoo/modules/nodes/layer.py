"""Any layer of the library as a node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, Self

import numpy as np
from pydantic import ValidationError

from evodevo.errors import GenomeError, UsageError
from evodevo.module_zoo.modules.attributes import CATEGORY_CHANCE
from evodevo.module_zoo.modules.nodes.base import Node
from evodevo.operators.layers.cost import Work, layer_parameters, layer_work, liv_operator
from evodevo.operators.layers.spec import Layer, LIVLayer, NestedLayer

if TYPE_CHECKING:
    from evodevo.operators.base import Operator

_FAMILIES = {"transformer": "attention", "mlp": "memoryless", "convolution": "convolution", "lstm": "recurrence"}


class LayerNode(Node):
    """Any operator of the library: a LIV by its operator genome, an H-Model, a span of a backbone (operators/layers).

    It is a whole block, norm and residual inside, and keeps the width. Opaque to splicing. Costs are the layer's.
    """

    type: Literal["layer"] = "layer"
    layer: Layer

    def answer_width(self, widths: Sequence[int]) -> int:
        """See ``Node``."""
        width = widths[0]
        try:
            layer_parameters(self.layer, width, causal=False)
            _check_inner(self.layer)
        except (UsageError, ValidationError) as error:  # sizes that no settings allow are refused as settings are
            reason = error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error)
            raise GenomeError(
                f"node {self.id!r}, a layer of kind {self.layer.kind!r} at {width} channels: {reason}"
            ) from None
        return width

    def parameters(self, width: int) -> int:
        """See ``Node``."""
        return layer_parameters(self.layer, width, causal=False)

    def work(self, width: int, length: int) -> Work:
        """See ``Node``."""
        return layer_work(self.layer, width, length, causal=False, visible=False)

    def build(self, width: int) -> Operator:
        """See ``Node``."""
        from evodevo.operators.layers.build import build_layer

        return build_layer(self.layer, width, causal=False)

    def mutated(self, width: int, rng: np.random.Generator, scale: float) -> Self:
        """Another LIV class with chance 0.1; other layers stay."""
        from evodevo.module_zoo.modules.operator_text import liv_names, operator_layer

        layer = self.layer
        if not isinstance(layer, LIVLayer) or rng.random() >= CATEGORY_CHANCE * scale:
            return self
        names = liv_names(layer.width or width)
        if not names:
            return self
        other = operator_layer(names[int(rng.integers(len(names)))], layer.width or width)
        return self.model_copy(
            update={"layer": other.model_copy(update={"width": layer.width, "router": layer.router})}
        )

    @property
    def label(self) -> str:
        """The LIV class or operator genome, else the kind of layer."""
        return self.layer.operator if isinstance(self.layer, LIVLayer) else self.layer.kind.replace("_", " ")

    @property
    def family(self) -> str:
        """The family of the layer."""
        if isinstance(self.layer, LIVLayer):
            return liv_operator(self.layer, self.layer.width or 64)[0].family
        return _FAMILIES.get(self.layer.kind, "other")

    @property
    def held_layer(self) -> Layer:
        """The layer."""
        return self.layer


def _check_inner(layer: Layer) -> None:
    """What belongs to a whole H-Model alone (``h_model/nested.py``)."""
    from evodevo.h_model.spec import HaltingStructure, RegularisationStructure

    if not isinstance(layer, NestedLayer):
        return
    structure = layer.structure
    losses = structure.regularisation.model_copy(update={"layer_dropout": 0.0})
    if structure.halting != HaltingStructure() or losses != RegularisationStructure():
        raise UsageError("halting and losses on routing belong to a whole H-Model; inside a module leave them out.")
    for inner in structure.hidden:
        _check_inner(inner)


import evodevo.h_model.spec  # noqa: E402, F401 - completes the layers: H-Models, and modules of nodes like these

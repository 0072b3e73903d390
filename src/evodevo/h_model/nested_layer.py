"""The layer of kind ``h_model``: an H-Model as a layer of another network.

Legend: S positions, d width.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Self

from pydantic import model_validator

from evodevo.errors import UsageError
from evodevo.h_model.cost import core_parameters, core_state_bytes, core_work
from evodevo.h_model.spec import HaltingStructure, HModelStructure, RegularisationStructure
from evodevo.operators.cost import Work, total_work
from evodevo.operators.layers.base import LayerSpec

if TYPE_CHECKING:
    from evodevo.operators.base import Operator
    from evodevo.operators.source.sheet import SourceSheet


class NestedLayer(LayerSpec):
    """An H-Model as a layer of another one: one latent input, one output, no heads.

    Source: docs/spec/h_model.md#nested-models.

    Attributes:
        structure: structure of the inner model.
    """

    kind: Literal["h_model"] = "h_model"
    structure: HModelStructure

    @model_validator(mode="after")
    def _no_usual_losses(self) -> Self:
        """Losses on routing belong to the whole: here nothing follows from the stream."""
        object.__setattr__(self, "structure", self.structure.without_usual_balance())
        return self

    def own_parameters(self, width: int, causal: bool) -> int:
        """Parameters of the core with one input and one output."""
        return sum(core_parameters(self._inner(width), 1, 1).values())

    def own_work(self, width: int, length: int, *, causal: bool, visible: bool) -> Work:
        """Work of the core in all iterations."""
        return total_work(core_work(self._inner(width), length, 1, 1, visible=visible).values())

    def own_state_bytes(self, width: int, length: int) -> int:
        """Bytes of the states of every layer in every iteration."""
        return core_state_bytes(self._inner(width), 1, length)

    def build(self, width: int, *, causal: bool, residual: bool) -> Operator:
        """The inner H-Model.

        Raises:
            UsageError: another width; a causal model with an inner one that is not; a stack without residuals; halting
                or losses inside, which only a whole model can have.
        """
        structure = self._inner(width)
        if causal and not structure.causal:
            raise UsageError(
                "a causal model has causal layers: set causal = true in the structure of the inner H-Model."
            )
        if not residual:
            raise UsageError(
                "an inner H-Model has no residual connection to take away; use other layers in this control."
            )
        if self._is_a_whole():
            raise UsageError(
                "halting and losses on routing belong to the whole H-Model; an inner one can have layer_dropout only."
            )
        if structure.own:
            raise UsageError("an inner H-Model has one output; layers of an output's own belong to the whole one.")
        if structure.carried.routes is not None:
            raise UsageError("given routes read inputs, which only a whole H-Model has; an inner one has a router.")
        from evodevo.h_model.nested import NestedHModel

        return NestedHModel(structure)

    def source(self, sheet: SourceSheet, width: int, *, causal: bool, residual: bool) -> str:
        """See ``LayerSpec``."""
        from evodevo.h_model.source.nested import nested_source

        return nested_source(sheet, self._inner(width))

    def sizes(self, width: int) -> str:
        """See ``LayerSpec``."""
        return f"{len(self.structure.hidden)} layers, T = {self.structure.iterations}"

    def check_part(self) -> None:
        """Raise ``UsageError`` for halting or losses on routing, here or in an H-Model inside."""
        if self._is_a_whole():
            raise UsageError("halting and losses on routing belong to a whole H-Model; inside a module leave them out.")
        for inner in self.structure.hidden:
            inner.check_part()

    @property
    def nesting(self) -> int:
        """Nesting depth of the inner model, itself included."""
        return self.structure.nesting

    def _is_a_whole(self) -> bool:
        losses = self.structure.regularisation.model_copy(update={"layer_dropout": 0.0})
        return self.structure.halting != HaltingStructure() or losses != RegularisationStructure()

    def _inner(self, width: int) -> HModelStructure:
        if self.structure.width != width:
            raise UsageError(
                f"an H-Model of width {self.structure.width} among channels of width {width}: set the layer's width to "
                f"{self.structure.width}, and adapters are put around it."
            )
        return self.structure

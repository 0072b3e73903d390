"""Widening: every channel and every head becomes two, as in Net2Net (Chen et al., ICLR 2016), and twins part."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from evodevo.backbone.spec import BackboneStructure
from evodevo.growth.backbone.base import BackboneEdit, with_sizes

if TYPE_CHECKING:
    import torch

    from evodevo.backbone.model import Backbone
    from evodevo.training.surgery import Origins


class WidenEdit(BackboneEdit):
    """Twice the width, with twice the heads of the same size.

    Attributes:
        noise: By how much the weights that read the two twins of a channel differ, as a factor of the spread of these
            weights; above 0, so that twins part.
    """

    kind: Literal["widen"] = "widen"
    noise: float = Field(default=0.5, gt=0, le=2)

    def after(self, structure: BackboneStructure) -> BackboneStructure:
        """See ``BackboneEdit``."""
        sizes = structure.space.dimensions
        return with_sizes(structure, structure.genome, dimensions={"width": 2 * sizes.width, "head_size": sizes.head})

    def fill(self, before: Backbone, after: Backbone, generator: torch.Generator) -> Origins:
        """See ``BackboneEdit``."""
        from evodevo.growth.backbone.weights import twin

        return twin(before, after, self.noise, generator)

    def words(self) -> str:
        """See ``BackboneEdit``."""
        return "twice the width"

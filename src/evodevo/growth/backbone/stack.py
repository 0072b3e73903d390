"""Stacking: copies of all LIVs, one after the other, with the weights of the trained ones.

Source: G_stack of Du et al., Stacking Your Transformers, NeurIPS 2024 (depthwise stacking); the answers change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from evodevo.backbone.depth import repeat
from evodevo.backbone.spec import BackboneStructure
from evodevo.growth.backbone.base import BackboneEdit, at_depth

if TYPE_CHECKING:
    import torch

    from evodevo.backbone.model import Backbone
    from evodevo.training.surgery import Origins


class StackEdit(BackboneEdit):
    """The LIVs several times, each copy sharing inside itself alone.

    Attributes:
        times: Number of copies, 2 to 16.
    """

    kind: Literal["stack"] = "stack"
    times: int = Field(default=2, ge=2, le=16)

    preserves: ClassVar[bool] = False

    def after(self, structure: BackboneStructure) -> BackboneStructure:
        """See ``BackboneEdit``."""
        _, genome = structure.parse()
        return at_depth(structure, repeat(genome, self.times))

    def fill(self, before: Backbone, after: Backbone, generator: torch.Generator) -> Origins:
        """See ``BackboneEdit``."""
        from evodevo.growth.backbone.weights import copy_parts

        depth = len(before.plans)
        return copy_parts(before, after, {place: place % depth for place in range(len(after.plans))})

    def words(self) -> str:
        """See ``BackboneEdit``."""
        return f"its LIVs {self.times} times"

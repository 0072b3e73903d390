"""A longer context: windows of more tokens, and as many fewer of them in a batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from evodevo.backbone.spec import BackboneStructure
from evodevo.growth.backbone.base import BackboneEdit

if TYPE_CHECKING:
    import torch

    from evodevo.backbone.model import Backbone
    from evodevo.training.surgery import Origins


class LengthenEdit(BackboneEdit):
    """Training windows of another number of tokens; the network stays.

    Attributes:
        tokens: Tokens of a training window from then on; the length of the task must be a multiple.
    """

    kind: Literal["lengthen"] = "lengthen"
    tokens: int = Field(ge=2)

    def length(self, length: int) -> int:
        """See ``BackboneEdit``."""
        return self.tokens

    def misfit(self, structure: BackboneStructure, length: int, whole: int) -> str:
        """See ``BackboneEdit``; windows become longer only."""
        if self.tokens <= length:
            return f"windows have {length:,} tokens already."
        return super().misfit(structure, length, whole)

    def fill(self, before: Backbone, after: Backbone, generator: torch.Generator) -> Origins:
        """See ``BackboneEdit``."""
        from evodevo.growth.backbone.weights import copy_parts

        return copy_parts(before, after, {place: place for place in range(len(after.plans))})

    def words(self) -> str:
        """See ``BackboneEdit``."""
        return f"windows of {self.tokens:,} tokens"

"""Removal: one LIV less; the others keep their weights."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from evodevo.backbone.spec import BackboneStructure
from evodevo.errors import UsageError
from evodevo.growth.backbone.base import BackboneEdit, at_depth, class_number

if TYPE_CHECKING:
    import torch

    from evodevo.backbone.model import Backbone
    from evodevo.training.surgery import Origins


class RemoveEdit(BackboneEdit):
    """Without the first LIV of a class; what it shared goes on with the LIVs that it shared it with.

    Attributes:
        liv: Name of the class (``SA-1``).
    """

    kind: Literal["remove"] = "remove"
    liv: str

    preserves: ClassVar[bool] = False

    def check_class(self, structure: BackboneStructure) -> None:
        """See ``BackboneEdit``."""
        class_number(structure, self.liv)

    def after(self, structure: BackboneStructure) -> BackboneStructure:
        """See ``BackboneEdit``."""
        space, genome = structure.parse()
        names = [plan.row.name for plan in space.plan(genome)]
        if self.liv not in names:
            raise UsageError(f"the backbone has no LIV {self.liv} to remove; it has {', '.join(names)}.")
        if len(names) < 2:
            raise UsageError("a backbone keeps one LIV.")
        place = names.index(self.liv)
        return at_depth(structure, (*genome[:place], *genome[place + 1 :]))

    def fill(self, before: Backbone, after: Backbone, generator: torch.Generator) -> Origins:
        """See ``BackboneEdit``."""
        from evodevo.growth.backbone.weights import copy_parts

        place = [plan.row.name for plan in before.plans].index(self.liv)
        return copy_parts(before, after, {at: at + (at >= place) for at in range(len(after.plans))})

    def words(self) -> str:
        """See ``BackboneEdit``."""
        return f"without its first LIV {self.liv}"

"""Insertion: one LIV more, of any class, whose output projection is 0 at first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from evodevo.backbone.genome import FEATURE, FEATURIZER, RESIDUAL
from evodevo.backbone.spec import BackboneStructure
from evodevo.errors import UsageError
from evodevo.growth.backbone.base import BackboneEdit, at_depth, class_number

if TYPE_CHECKING:
    import torch

    from evodevo.backbone.model import Backbone
    from evodevo.training.surgery import Origins


class InsertEdit(BackboneEdit):
    """A LIV of a class, without connections, before the one at a place.

    Attributes:
        liv: Name of the class (``Rec-1``, ``GMemless``).
        place: Number of LIVs before it; behind all others if left out.
    """

    kind: Literal["insert"] = "insert"
    liv: str
    place: int | None = Field(default=None, ge=0)

    def check_class(self, structure: BackboneStructure) -> None:
        """See ``BackboneEdit``."""
        class_number(structure, self.liv)

    def after(self, structure: BackboneStructure) -> BackboneStructure:
        """See ``BackboneEdit``."""
        number, (_, genome) = class_number(structure, self.liv), structure.parse()
        place = self._place(len(genome))
        free = 1 + max(max(segment[FEATURE], segment[FEATURIZER]) for segment in genome)
        own: tuple[int, ...] = (number, free, 1, free, 1)
        if len(genome[0]) > RESIDUAL:
            own = (*own, 1 + max(segment[RESIDUAL] for segment in genome))
        classes = structure.space.classes
        if classes is not None and self.liv not in classes:
            wider = structure.space.model_copy(update={"classes": (*classes, self.liv)})
            structure = structure.model_copy(update={"space": wider})
        return at_depth(structure, (*genome[:place], own, *genome[place:]))

    def _place(self, depth: int) -> int:
        place = depth if self.place is None else self.place
        if place > depth:
            raise UsageError(f"a backbone of {depth} LIVs has no place {place} to insert one at.")
        return place

    def fill(self, before: Backbone, after: Backbone, generator: torch.Generator) -> Origins:
        """See ``BackboneEdit``."""
        from evodevo.growth.backbone.weights import copy_parts, silence

        place = self._place(len(before.plans))
        origins = copy_parts(before, after, {at: at - (at > place) for at in range(len(after.plans)) if at != place})
        silence(after, place)
        return origins

    def words(self) -> str:
        """See ``BackboneEdit``."""
        return f"a LIV {self.liv} {'behind the others' if self.place is None else f'at place {self.place}'}"

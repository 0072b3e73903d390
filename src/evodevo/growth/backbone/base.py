"""An edit of a backbone between two segments of its training.

To add one: a subclass in a file of its own, and a member of the union in ``spec``.

Legend: D width, L length of the training windows in tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field

from evodevo.backbone.space import BackboneSpace
from evodevo.backbone.spec import BackboneStructure
from evodevo.errors import GenomeError, UsageError, unknown_name
from evodevo.settings import Settings, merge, validate

if TYPE_CHECKING:
    import torch

    from evodevo.backbone.model import Backbone
    from evodevo.training.surgery import Origins


class BackboneEdit(Settings):
    """One edit, and when it is made.

    Attributes:
        at: Share of the budget after which it is made, above 0 and below 1; None of one that events choose from.
    """

    at: float | None = Field(default=None, gt=0, lt=1)

    preserves: ClassVar[bool] = True
    """Whether the network answers after it as before."""

    def after(self, structure: BackboneStructure) -> BackboneStructure:
        """The structure afterwards.

        Raises:
            UsageError, GenomeError: The backbone cannot be edited so.
        """
        return structure

    def check_class(self, structure: BackboneStructure) -> None:
        """Check the name of the LIV class, where the edit has one.

        Raises:
            UsageError: No class of the registry.
        """

    def length(self, length: int) -> int:
        """Tokens of a training window afterwards."""
        return length

    def misfit(self, structure: BackboneStructure, length: int, whole: int) -> str:
        """Why the edit cannot be made, in words; empty where it can.

        Args:
            structure: The structure before.
            length: Tokens of a training window before.
            whole: Tokens of a window of the task.
        """
        try:
            self.after(structure)
        except (UsageError, GenomeError) as error:
            return str(error)
        if whole % self.length(length):
            return f"windows of {whole} tokens cannot be cut into windows of {self.length(length)}."
        return ""

    def fill(self, before: Backbone, after: Backbone, generator: torch.Generator) -> Origins:
        """Give the new network its weights from the old one.

        Args:
            before: The trained network.
            after: One of the structure ``after``, initialised; changed in place.
            generator: Source of the random numbers of the edit.

        Returns:
            Origins of the parameters, for the moments of the optimiser.

        Raises:
            UsageError: The network cannot be edited so.
        """
        raise NotImplementedError

    def words(self) -> str:
        """What it does, in a few words."""
        raise NotImplementedError


def class_number(structure: BackboneStructure, name: str) -> int:
    """Number of a LIV class by its name.

    Raises:
        UsageError: No class of the registry.
    """
    numbers = {row.name: row.number for row in structure.parse()[0].all_classes.values()}
    if name not in numbers:
        raise unknown_name("LIV class", name, numbers)
    return numbers[name]


def with_sizes(structure: BackboneStructure, genome: str, **space: Any) -> BackboneStructure:
    """The structure with another genome, in a space with some settings changed.

    Raises:
        UsageError: No such space, or no genome of it.
    """
    values = merge(structure.model_dump(mode="json"), {"space": space, "genome": genome})
    return validate(BackboneStructure, values, what="the edited backbone")


def at_depth(structure: BackboneStructure, segments: Sequence[tuple[int, ...]]) -> BackboneStructure:
    """The structure with these segments, in a space of their number.

    Raises:
        UsageError, GenomeError: No backbone of the space.
    """
    settings = structure.space.model_copy(update={"depth": len(segments), "depth_range": None})
    space = BackboneSpace(settings)
    genome = space.canonical(tuple(segments))
    space.check(genome)
    return with_sizes(structure, space.print(genome), depth=len(segments), depth_range=None)

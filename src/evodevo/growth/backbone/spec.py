"""The plan of a growing backbone: edits, when each is made, and the length of the first windows."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from evodevo.backbone.spec import BackboneStructure
from evodevo.errors import UsageError
from evodevo.growth.backbone.insert import InsertEdit
from evodevo.growth.backbone.lengthen import LengthenEdit
from evodevo.growth.backbone.stack import StackEdit
from evodevo.growth.backbone.widen import WidenEdit
from evodevo.settings import Settings

STAGES = "stages"
"""Name of the fact about the segments of a training; see ``procedure.train_growing``."""
Edit = Annotated[StackEdit | InsertEdit | WidenEdit | LengthenEdit, Field(discriminator="kind")]


class GrowthPlan(Settings):
    """Options of the procedure ``grow_backbone``.

    Attributes:
        tokens: Tokens of a training window at the start; those of the task if left out.
        edits: In the order in which they are made; several may be made at once.
    """

    tokens: int | None = Field(default=None, ge=2)
    edits: tuple[Edit, ...] = Field(default=(), max_length=64)

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        shares = [edit.at for edit in self.edits]
        if shares != sorted(shares):
            raise ValueError(f"edits are made in the order of their shares 'at'; these are {shares}")
        return self

    def structures(self, start: BackboneStructure) -> list[BackboneStructure]:
        """The structure at the start and after each edit.

        Raises:
            UsageError, GenomeError: A backbone that cannot be edited so.
        """
        found = [start]
        for edit in self.edits:
            found.append(edit.after(found[-1]))
        return found

    def lengths(self, task: int) -> list[int]:
        """Tokens of a training window at the start and after each edit.

        Args:
            task: Tokens of a window of the task.

        Raises:
            UsageError: Windows of the task that cannot be cut into such.
        """
        found = [task if self.tokens is None else self.tokens]
        for edit in self.edits:
            found.append(edit.length(found[-1]))
        for length in found:
            if task % length:
                raise UsageError(f"windows of {task} tokens cannot be cut into windows of {length}.")
        return found

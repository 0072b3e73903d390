"""A backbone as plain data: genome, space and head."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from evodevo.backbone.genome import BackboneGenome, LIVPlan
from evodevo.backbone.space import BackboneSpace
from evodevo.backbone.space_settings import BackboneSettings
from evodevo.settings import Settings


class BackboneStructure(Settings):
    """A causal language model of LIVs.

    Attributes:
        space: Space of the genome, with the sizes that the genome leaves open.
        genome: Genome as written (``11111 91111``), or a named backbone (``striped-mamba``, ``transformer++@24``).
        tied: Whether the head is the embedding.
    """

    space: BackboneSettings = BackboneSettings()
    genome: str = Field(default="transformer++", min_length=1)
    tied: bool = False

    @model_validator(mode="after")
    def _is_of_its_space(self) -> Self:
        self.parse()
        return self

    def parse(self) -> tuple[BackboneSpace, BackboneGenome]:
        """The space and the genome.

        Raises:
            GenomeError: A text that is no genome of the space.
        """
        space = BackboneSpace(self.space)
        return space, space.parse(self.genome)

    def plans(self) -> tuple[LIVPlan, ...]:
        """The LIVs with their connections resolved."""
        space, genome = self.parse()
        return space.plan(genome)

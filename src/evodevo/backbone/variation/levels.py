"""Settings of what mutation may change: genes below the backbone's level, and a schedule of levels (STAR A.1)."""

from __future__ import annotations

from pydantic import Field, field_validator

from evodevo.backbone.variation.genes import GENE_PLACES
from evodevo.backbone.variation.operations import OPERATIONS
from evodevo.errors import quoted_list
from evodevo.settings import Settings


class Level(Settings):
    """One stage of a search that refines one level of the genome after another.

    Attributes:
        generations: Number of generations of the stage; without effect in the last stage, which holds to the end.
        open_genes: Places of operator and featurizer genomes that mutation may change in it.
        operation_weights: Operation -> weight, at least 0, of its draw in it; the defaults if left out.
    """

    generations: int = Field(default=1, ge=1)
    open_genes: tuple[str, ...] = ()
    operation_weights: dict[str, float] = Field(default_factory=dict)

    @field_validator("open_genes")
    @classmethod
    def _are_places(cls, places: tuple[str, ...]) -> tuple[str, ...]:
        return gene_places(places)

    @field_validator("operation_weights")
    @classmethod
    def _are_weights(cls, weights: dict[str, float]) -> dict[str, float]:
        return operation_weights(weights)


def level_at(levels: tuple[Level, ...], generation: int) -> Level:
    """The stage of a generation, counted from 0."""
    for level in levels[:-1]:
        if generation < level.generations:
            return level
        generation -= level.generations
    return levels[-1]


def gene_places(places: tuple[str, ...]) -> tuple[str, ...]:
    """Checked places of genes.

    Raises:
        ValueError: A place does not exist.
    """
    for place in places:
        if place not in GENE_PLACES:
            raise ValueError(f"there is no gene place {place!r}; there are {quoted_list(GENE_PLACES)}")
    return places


def operation_weights(weights: dict[str, float]) -> dict[str, float]:
    """Checked weights of operations.

    Raises:
        ValueError: An operation does not exist, a weight is negative, or all are 0.
    """
    for name, weight in weights.items():
        if name not in OPERATIONS:
            raise ValueError(f"there is no operation {name!r}; there are {quoted_list(OPERATIONS)}")
        if weight < 0:
            raise ValueError(f"the weight of {name!r} is {weight}; at least 0 is wanted")
    if not any(weights.get(name, row.weight) for name, row in OPERATIONS.items()):
        raise ValueError("all operations have weight 0; at least one must be above")
    return weights

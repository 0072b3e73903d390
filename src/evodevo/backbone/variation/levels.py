"""Settings of what mutation may change: genes below the backbone's level, and a schedule of levels (STAR A.1)."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from evodevo.backbone.variation.genes import GENE_PLACES
from evodevo.backbone.variation.operations import OPERATIONS
from evodevo.errors import quoted_list
from evodevo.settings import Settings


def _gene_places(places: tuple[str, ...]) -> tuple[str, ...]:
    """Checked places of genes.

    Raises:
        ValueError: A place does not exist.
    """
    for place in places:
        if place not in GENE_PLACES:
            raise ValueError(f"there is no gene place {place!r}; there are {quoted_list(GENE_PLACES)}")
    return places


def _operation_weights(weights: dict[str, float]) -> dict[str, float]:
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


GenePlaces = Annotated[tuple[str, ...], AfterValidator(_gene_places)]
"""Places of operator and featurizer genomes that exist."""
OperationWeights = Annotated[dict[str, float], AfterValidator(_operation_weights)]
"""Operation -> weight, at least 0, of operations that exist; not all are 0."""


class Level(Settings):
    """One stage of a search that refines one level of the genome after another.

    Attributes:
        generations: Number of generations of the stage; without effect in the last stage, which holds to the end.
        open_genes: Places of operator and featurizer genomes that mutation may change in it.
        operation_weights: Operation -> weight, at least 0, of its draw in it; the defaults if left out.
    """

    generations: int = Field(default=1, ge=1)
    open_genes: GenePlaces = ()
    operation_weights: OperationWeights = Field(default_factory=dict)


def level_at(levels: tuple[Level, ...], generation: int) -> Level:
    """The stage of a generation, counted from 0."""
    for level in levels[:-1]:
        if generation < level.generations:
            return level
        generation -= level.generations
    return levels[-1]

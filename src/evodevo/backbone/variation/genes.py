"""Mutation of operator and featurizer genomes (STAR 3.2, A.6.2, A.6.3): the levels below the backbone's.

One integer of an operator is drawn anew. Where the result does not compile, the nearest genome that does takes its
place: the one with the fewest other integers changed, drawn among equals, the mutated integer kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import product

import numpy as np

from evodevo.backbone.written_classes import LARGEST_SIZE, class_number
from evodevo.errors import GenomeError
from evodevo.operators.compile import STRUCTURES, compile_operator
from evodevo.operators.featurizer_spec import FEATURIZERS, Featurizer, GroupGenes
from evodevo.operators.spec import Dimensions, OperatorGenome, OperatorSpec
from evodevo.randomness import draw_one

OPERATOR, FEATURIZER = "operator", "featurizer"
OPERATOR_GENES = ("featurization", "token_mixing", "sparsity", "nonlinearity", "channel_mixing")
OPERATOR_OPTIONS: tuple[tuple[int, ...], ...] = (tuple(FEATURIZERS), tuple(STRUCTURES), (1, 2), (1, 2, 3, 4), (1, 2))
SIZES = tuple(size for size in (1, 2, 3, 4, 8, 16, 32, 64) if size <= LARGEST_SIZE)
FEATURIZER_OPTIONS: dict[str, tuple[int, ...]] = {
    "parametrisation": (1, 2, 3),
    "token_mixing": (1, 3),
    "sparsity": (1, 2),
    "nonlinearity": (1, 3, 4),
    "channel_mixing": (1, 2),
    "expansion": SIZES,
    "repeat": SIZES,
}
GENE_PLACES = (
    OPERATOR,
    FEATURIZER,
    *(f"{OPERATOR}.{gene}" for gene in OPERATOR_GENES),
    *(f"{FEATURIZER}.{gene}" for gene in FEATURIZER_OPTIONS),
)
"""Places that a space may open to mutation: single ones, or all of a level by its name."""

Genome = tuple[OperatorGenome, Featurizer]


def open_genes(places: tuple[str, ...], level: str) -> tuple[str, ...]:
    """The genes of a level that these places open."""
    genes = OPERATOR_GENES if level == OPERATOR else tuple(FEATURIZER_OPTIONS)
    return tuple(gene for gene in genes if level in places or f"{level}.{gene}" in places)


def mutant_class(
    spec: OperatorSpec, level: str, places: tuple[str, ...], dims: Dimensions, rng: np.random.Generator
) -> int | None:
    """The class number of an operator with one integer of that level changed, others as far as it must be.

    Args:
        spec: Compiled operator.
        level: Level that is mutated: ``operator`` or ``featurizer``.
        places: Open places of the space.
        dims: Sizes at which the mutant must exist.
        rng: Generator of the draws.

    Returns:
        The number; None where the drawn integer leads to no other operator.
    """
    genes = open_genes(places, level)
    if spec.differential != "none" or not genes:
        return None
    gene = draw_one(genes, rng)
    if level == OPERATOR:
        place = OPERATOR_GENES.index(gene)
        value = _other(OPERATOR_OPTIONS[place], spec.operator[place], rng)
        near = _nearest_operators(spec, place, value, dims)
    else:
        group = int(rng.integers(len(spec.featurizer)))
        value = _other(FEATURIZER_OPTIONS[gene], getattr(spec.featurizer[group], gene), rng)
        near = _nearest_featurizers(spec, group, gene, value, dims)
    return draw_one(near, rng) if near else None


def _other(options: tuple[int, ...], value: int, rng: np.random.Generator) -> int:
    return draw_one([option for option in options if option != value], rng)


def _nearest_operators(spec: OperatorSpec, place: int, value: int, dims: Dimensions) -> list[int]:
    """Numbers of the operators with that integer which differ from ``spec`` in the fewest other integers.

    The featurizer is the operator's own, unless integer 1 is the mutated one or the structure needs another number of
    groups; another one counts as one integer.
    """
    own = spec.featurizer
    best: dict[int, set[int]] = {}
    for genome in _operators():
        if genome[place] != value:
            continue
        for featurizer in {own, FEATURIZERS[genome[0]]} if place else {FEATURIZERS[genome[0]]}:
            new = featurizer != own
            distance = new + sum(a != b for a, b in zip(genome[1:], spec.operator[1:], strict=True))
            if (number := _number((genome, featurizer), spec, dims)) is not None:
                best.setdefault(distance, set()).add(number)
    return sorted(best[min(best)]) if best else []


@lru_cache(maxsize=1)
def _operators() -> tuple[OperatorGenome, ...]:
    return tuple(product(*OPERATOR_OPTIONS))  # type: ignore[arg-type]


def _nearest_featurizers(spec: OperatorSpec, group: int, gene: str, value: int, dims: Dimensions) -> list[int]:
    """Numbers of the operators with that gene in that group; one other gene of the featurizer is changed at most."""
    changed = _replaced(spec.featurizer, group, gene, value)
    for genomes in ([changed], _neighbours(changed, (group, gene))):
        numbers = {_number((spec.operator, featurizer), spec, dims) for featurizer in genomes}
        if found := sorted(number for number in numbers if number is not None):
            return found
    return []


def _neighbours(featurizer: Featurizer, kept: tuple[int, str]) -> Iterator[Featurizer]:
    for group, row in enumerate(featurizer):
        for gene, options in FEATURIZER_OPTIONS.items():
            if (group, gene) != kept:
                for option in options:
                    if option != getattr(row, gene):
                        yield _replaced(featurizer, group, gene, option)


def _replaced(featurizer: Featurizer, group: int, gene: str, value: int) -> Featurizer:
    row: GroupGenes = featurizer[group]._replace(**{gene: value})
    return (*featurizer[:group], row, *featurizer[group + 1 :])


def _number(genome: Genome, before: OperatorSpec, dims: Dimensions) -> int | None:
    """The class number; None where the genome does not compile, does not exist at these sizes, or is the same one."""
    spec = _compiled(*genome)
    if spec is None:
        return None
    try:
        spec.check(dims)
        number = class_number(spec)
    except GenomeError:
        return None
    return None if number == class_number(before) else number


@lru_cache(maxsize=65536)
def _compiled(operator: OperatorGenome, featurizer: Featurizer) -> OperatorSpec | None:
    try:
        return compile_operator(operator, featurizer)
    except GenomeError:
        return None

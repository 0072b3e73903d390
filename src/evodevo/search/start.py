"""Genomes of the user's with which a search begins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import Field

from evodevo.errors import GenomeError, UsageError
from evodevo.search.base import Proposal
from evodevo.search.space import Space
from evodevo.settings import Settings

START = "start"
"""Operation of the individuals that a user gave to the initial population."""


class Start(Settings):
    """One genome with which a search begins.

    Attributes:
        genome: envelope of the genome.
        source: origin of the genome, in words.
        parents: ids of the individuals that it comes from, in the same store; at most one.
        scaling: change of the depth of its source, in words; empty where there is none.
    """

    genome: dict[str, Any]
    source: str
    parents: tuple[str, ...] = Field(default=(), max_length=1)
    scaling: str = ""


def founders(starts: Sequence[Start], space: Space[Any], population: int) -> list[Proposal]:
    """The first individuals of a search, in the order in which they were given.

    Args:
        starts: given genomes.
        space: space of the search.
        population: number of individuals of the initial population, these included.

    Raises:
        UsageError: more than the population, two of one network, or a genome that the search cannot begin with.
    """
    if len(starts) > population:
        raise UsageError(
            f"{len(starts)} genomes to begin with are more than the population of {population}; give fewer, or raise "
            "study.population."
        )
    proposals, known = [], dict[str, str]()
    for start in starts:
        try:
            genome = space.from_json(start.genome)
            space.check_founder(genome)
        except GenomeError as error:
            raise GenomeError(f"the search cannot begin with {start.source}: {error}") from None
        digest = space.hash(genome)
        if digest in known:
            raise UsageError(f"{known[digest]} and {start.source} are the same network; begin with one of them.")
        known[digest] = start.source
        details = {"source": start.source, **({"scaling": start.scaling} if start.scaling else {})}
        proposals.append(Proposal(genome, start.parents, START, details))
    return proposals

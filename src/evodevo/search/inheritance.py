"""Weight inheritance in a search: a child begins with tensors of its parents.

``networks.inheritance`` decides which tensors those are; this file decides from whom: the better parent by its rank in
the population comes first, and tensors that it does not have are taken from the other one.
"""

from __future__ import annotations

from dataclasses import replace

from pydantic import Field

from evodevo.search.base import Proposal, SearchState
from evodevo.settings import Settings

DONORS = "donors"
"""Key of an individual's details: ids of the parents whose weights it begins with, the better one first."""


class InheritanceSettings(Settings):
    """The inheritance of weights.

    Attributes:
        budget: Share of the training budget that a child with donors is trained for, above 0, at most 1. The learning
            rate's schedule spans this shorter budget; individuals without donors have the whole one.
    """

    budget: float = Field(default=1.0, gt=0, le=1)


def with_donors(proposal: Proposal, state: SearchState) -> Proposal:
    """The proposal with its donors in its details; as it was where no parent is in the population."""
    standings = {one.id: standing for one, standing in zip(state.population, state.standings, strict=True)}
    # A stable sort: of equally good parents the first by role comes first.
    donors = sorted((one for one in dict.fromkeys(proposal.parents) if one in standings), key=standings.__getitem__)
    return replace(proposal, details={**proposal.details, DONORS: donors}) if donors else proposal

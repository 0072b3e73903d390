"""No search: individuals that are there already, to be trained."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from evodevo.errors import NotFoundError, UsageError
from evodevo.search.base import Algorithm, AlgorithmSettings, Breed, Draw, Known, Proposal, Scored, SearchState
from evodevo.search.space import Space
from evodevo.storage import Lease, Store

OPERATION = "retrain"
SOURCE = "train.source"


class FixedGeneration(Algorithm):
    """No search: one generation of genomes that are there already."""

    name = "given"

    def __init__(self, proposals: Sequence[Proposal]) -> None:
        super().__init__(AlgorithmSettings(population=max(2, len(proposals))))
        self.proposals = list(proposals)

    def ask(self, state: SearchState, space: Space[Any], draw: Draw, count: int, known: Known) -> list[Proposal]:
        """All of them, whatever ``count``."""
        return list(self.proposals)

    def _breeder(self, state: SearchState, space: Space[Any], count: int) -> Breed:
        raise UsageError("given genomes have no children.")

    def _survive(
        self, parents: tuple[Scored, ...], children: tuple[Scored, ...]
    ) -> tuple[tuple[Scored, ...], tuple[int, ...]]:
        return children, tuple(range(len(children)))


def record_source(store: Store, lease: Lease, space: Space[Any], individual: str, genome: Any) -> None:
    """Record in a new run the individual that it trains."""
    store.add_event(lease, SOURCE, individual, {"genome": space.to_json(genome)})


def recall_source(store: Store, run_id: str, space: Space[Any]) -> FixedGeneration:
    """The individual that a recorded run trains.

    Raises:
        NotFoundError: the run was killed before it recorded the individual.
    """
    source = next((event for event in store.events(run_id) if event.type == SOURCE), None)
    if source is None:
        raise NotFoundError(f"run {run_id} was killed before it recorded what to train. Begin a new one: evodevo train")
    genome = space.from_json(source.payload["genome"])
    return FixedGeneration([Proposal(genome, (source.subject,), OPERATION, {})])

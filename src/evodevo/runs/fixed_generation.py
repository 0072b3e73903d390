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


def record_source(store: Store, lease: Lease, space: Space[Any], source: Proposal) -> None:
    """Record in a new run the genome that it trains, and the individual that it comes from, where there is one."""
    payload = {"genome": space.to_json(source.genome), "operation": source.operation, "details": source.details}
    store.add_event(lease, SOURCE, "".join(source.parents), payload)


def recall_source(store: Store, run_id: str, space: Space[Any]) -> FixedGeneration:
    """The genome that a recorded run trains.

    Raises:
        NotFoundError: the run was killed before it recorded the genome.
    """
    source = next((event for event in store.events(run_id) if event.type == SOURCE), None)
    if source is None:
        raise NotFoundError(f"run {run_id} was killed before it recorded what to train. Begin a new one: evodevo train")
    genome = space.from_json(source.fact("genome", dict))
    parents = (source.subject,) if source.subject else ()
    # Runs of older versions retrain an individual and record its genome alone.
    operation = source.fact("operation", str) if "operation" in source.payload else OPERATION
    details = source.fact("details", dict) if "details" in source.payload else {}
    return FixedGeneration([Proposal(genome, parents, operation, details)])

"""The individuals of a running search in memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from evodevo.search.base import Proposal
from evodevo.search.front import front_places
from evodevo.search.inheritance import DONORS
from evodevo.search.problem import Goal, Outcome
from evodevo.search.space import Space
from evodevo.storage import Lease, NewIndividual, Store, individual_id

BASELINE = "baseline"
"""Operation of the hand-designed individuals, which are no part of the search."""
Listener = Callable[[str, dict[str, Any]], None]
"""Called for each event of a study with its type and JSON-able facts. See ``docs/evolve.md`` for the types."""


@dataclass
class Member:
    """One individual in memory.

    Attributes:
        id: Id in the store.
        birth: Unique key in the run: ``generation/slot``, ``event/n`` or ``baseline/name``.
        generation: Number of the generation, from 0; -1 for baselines.
        slot: Position in the generation, from 0.
        genome: Genome of the individual.
        hash: Hash of the genome.
        operation: Operation that made it, see ``Proposal``; ``baseline`` for baselines.
        outcomes: Number of the seed -> outcome; 0 is the evaluation for the search, others are confirmations. Of an
            individual that stopped at a rung, 0 is its outcome there.
        donors: Ids of the individuals whose weights the evaluation for the search begins with, the preferred first.
        rungs: Share of the budget -> outcome there, of the rungs below the whole budget.
        released: (share, role) of the blobs that the search has let go of.
    """

    id: str
    birth: str
    generation: int
    slot: int
    genome: Any
    hash: str
    operation: str
    outcomes: dict[int, Outcome] = field(default_factory=dict)
    donors: tuple[str, ...] = ()
    rungs: dict[float, Outcome] = field(default_factory=dict)
    released: set[tuple[float, str]] = field(default_factory=set)


class Members:
    """All individuals of a run, recorded in its store.

    Args:
        space: Space of the genomes.
        store: Store of the run.
        run: Id of the run.
        seed: Seed of the individuals' evaluations for the search.
        listener: Function called for each event.

    Attributes:
        by_id: Id -> member, in order of birth.
        hashes: Hashes of the genomes that the search has proposed.
    """

    def __init__(self, space: Space[Any], store: Store, run: str, seed: int, listener: Listener) -> None:
        self.run = run
        self.seed = seed
        self.by_id: dict[str, Member] = {}
        self.hashes: set[str] = set()
        self._space = space
        self._store = store
        self._listener = listener
        self._births: dict[str, str] = {}
        self._originals: dict[str, Member] = {}

    def own(self) -> list[Member]:
        """The individuals of the search, without baselines, in order of birth."""
        return [member for member in self.by_id.values() if member.operation != BASELINE]

    def baselines(self) -> list[Member]:
        """The hand-designed individuals."""
        return [member for member in self.by_id.values() if member.operation == BASELINE]

    def original(self, member: Member) -> Member:
        """The first individual with the member's genome; the member itself where there is no earlier one."""
        return self._originals[member.hash]

    def add(self, lease: Lease, born: Sequence[tuple[str, int, int, Proposal]]) -> list[Member]:
        """Record individuals in one transaction; a birth that is recorded already gives the recorded member.

        Args:
            lease: Write lease of the run.
            born: (key of the birth, generation, slot, proposal) of each individual.
        """
        members, rows = [], []
        for birth, generation, slot, proposal in born:
            if birth in self._births:
                members.append(self.by_id[self._births[birth]])
                continue
            identity = individual_id(self.run, birth)
            genome_hash = self._space.hash(proposal.genome)
            rows.append(
                NewIndividual(
                    id=identity,
                    birth=birth,
                    generation=generation,
                    slot=slot,
                    genome_envelope=self._space.to_json(proposal.genome),
                    genome_hash=genome_hash,
                    operation=proposal.operation,
                    details=proposal.details,
                    parents=proposal.parents,
                    seed=self.seed,
                )
            )
            donors = tuple(proposal.details.get(DONORS, ()))
            operation = proposal.operation
            member = Member(identity, birth, generation, slot, proposal.genome, genome_hash, operation, donors=donors)
            members.append(member)
        if rows:
            self._store.add_individuals(lease, rows)
            for member in members:
                if member.birth not in self._births:
                    self._admit(member)
            facts = [{"id": row.id, "operation": row.operation, "generation": row.generation} for row in rows]
            self._listener("proposed", {"individuals": facts})
        return members

    def recall(self, *, inheritance: bool) -> None:
        """Restore the individuals of a resumed run from the store.

        Args:
            inheritance: Whether children begin with weights of their parents.
        """
        for row in self._store.individuals(self.run):
            genome = self._space.from_json(row.genome_envelope)
            member = Member(row.id, row.birth, row.generation, row.slot, genome, row.genome_hash, row.operation)
            if inheritance:
                member.donors = tuple(row.details.get(DONORS, ()))
            self._admit(member)

    def _admit(self, member: Member) -> None:
        self.by_id[member.id] = member
        self._births[member.birth] = member.id
        self._originals.setdefault(member.hash, member)
        # A baseline is no part of the search: the search may propose an equal genome by itself.
        if member.operation != BASELINE:
            self.hashes.add(member.hash)


def front_of(members: Sequence[Member], goals: tuple[Goal, ...]) -> list[Member]:
    """The non-dominated members that were trained for the whole budget and keep all constraints, in the given order."""
    return [members[index] for index in front_places([member.outcomes.get(0) for member in members], goals)]

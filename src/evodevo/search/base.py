"""The ask-and-tell interface of every search algorithm, and the values that it exchanges with a driver.

An algorithm holds settings and nothing else. The progress of a search is a ``SearchState``, an immutable value: ``ask``
reads it, ``tell`` returns the next one. A driver that records the results can therefore replay a run to the same
proposals, in any process, after any crash.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, islice
from typing import Any, ClassVar

import numpy as np
from pydantic import Field

from evodevo.errors import EvodevoError, ExitCode, UsageError
from evodevo.registry import Registry, table
from evodevo.search.space import Space
from evodevo.settings import Settings, validate

ALGORITHMS: Registry[type[Algorithm]] = table("algorithm", "evodevo.algorithms")

Draw = Callable[[int, str], np.random.Generator]
"""``draw(slot, purpose)``; the driver binds the run's seed and the generation (in steady state, the event)."""

Known = Callable[[str], bool]
"""Whether the genome with this hash is already scored, failed or pending in this run."""


@dataclass(frozen=True)
class Scored:
    """An evaluated individual as an algorithm gets it.

    Attributes:
        id: Id of the individual, unique in the run.
        genome: Genome of the individual.
        values: All objectives as finite numbers to minimise; None where the evaluation failed.
        violation: Sum of the constraint violations, finite and >= 0; 0 = feasible. The values of an infeasible
            individual never influence how feasible ones are ranked; a genome that its constraints refused before any
            evaluation may have any finite values, for example zeros.
        share: Share of the training budget at which the values were measured, above 0, at most 1: less where the
            training stopped at a rung. Its values are then an estimate for the whole budget (``rungs.mean_changes``).

    Raises:
        UsageError: A value is not finite, there is no value at all, the violation is negative, or the
            share is none.
    """

    id: str
    genome: Any
    values: tuple[float, ...] | None
    violation: float = 0.0
    share: float = 1.0

    def __post_init__(self) -> None:
        if self.values is not None and not (self.values and all(map(math.isfinite, self.values))):
            raise UsageError(
                f"individual {self.id}: objective values are one or more finite numbers, got {self.values}; "
                "tell a failed evaluation as values=None."
            )
        if not (math.isfinite(self.violation) and self.violation >= 0):
            raise UsageError(f"individual {self.id}: a violation is finite and >= 0, got {self.violation}.")
        if not 0 < self.share <= 1:
            raise UsageError(f"individual {self.id}: a share is above 0 and at most 1, got {self.share}.")


@dataclass(frozen=True)
class Foreseen:
    """What is known of a genome before its evaluation.

    Attributes:
        values: One per objective, a number to minimise; None where only an evaluation tells.
        violation: Sum of the constraint violations that are known, >= 0.
    """

    values: tuple[float | None, ...]
    violation: float = 0.0


Foresee = Callable[[Any], Foreseen]
"""What is known of a genome before its evaluation."""


@dataclass(frozen=True)
class Proposal:
    """A genome to be evaluated, and its origin.

    Attributes:
        genome: Genome that is valid in the space and new in the run.
        parents: Ids of the parents, in the order of their roles.
        operation: Operation that made it: "initial", "sample", "mutation", "crossover", "crossover+mutation",
            "attraction" or "attraction+mutation".
        details: JSON-able facts; ``redraws`` is the number of earlier draws that were no new genome; ``operations`` and
            ``draws`` are those of ``Space.mutation``.
    """

    genome: Any
    parents: tuple[str, ...]
    operation: str
    details: dict[str, Any]


@dataclass(frozen=True)
class SearchState:
    """The whole state of a search.

    Attributes:
        population: Individuals that may become parents; failed ones are never among them.
        standings: One integer per individual, lower is better, equal means equally good: its rank among the parents
            and children of the last ``tell``.
        told: Number of results passed to ``tell``, failed ones included.
    """

    population: tuple[Scored, ...] = ()
    standings: tuple[int, ...] = ()
    told: int = 0

    def to_json(self, space: Space[Any]) -> dict[str, Any]:
        """The state as JSON-able data; ``State.from_json(space, state.to_json(space)) == state``."""
        return {
            "told": self.told,
            "standings": list(self.standings),
            "population": [
                {
                    "id": individual.id,
                    "genome": space.to_json(individual.genome),
                    "values": list(individual.values or ()),
                    "violation": individual.violation,
                    **({"share": individual.share} if individual.share < 1 else {}),
                }
                for individual in self.population
            ],
        }

    @classmethod
    def from_json(cls, space: Space[Any], data: Any) -> SearchState:
        """The state that ``to_json`` wrote.

        Raises:
            UsageError: The data has another form, or a genome belongs to another space.
        """
        try:
            population = tuple(
                Scored(
                    str(row["id"]),
                    space.from_json(row["genome"]),
                    tuple(float(value) for value in row["values"]),
                    float(row["violation"]),
                    float(row.get("share", 1.0)),
                )
                for row in data["population"]
            )
            state = cls(population, tuple(int(standing) for standing in data["standings"]), int(data["told"]))
        except UsageError:
            raise
        except (KeyError, TypeError, ValueError) as error:
            raise UsageError(f"this is not the state of a search: {error!r}") from None
        if len(state.standings) != len(population) or state.told < len(population):
            raise UsageError("this is not the state of a search: its population, standings and count disagree.")
        return state


class SpaceExhausted(EvodevoError):
    """1,000 samples in a row had been proposed before, so the space counts as exhausted; a regular end of a search.

    Attributes:
        proposals: New proposals of the same ``ask`` from before; still worth evaluating.
    """

    exit_code = ExitCode.SUCCESS

    def __init__(self, proposals: list[Proposal]) -> None:
        super().__init__("the space is exhausted: 1,000 random genomes in a row had been proposed before.")
        self.proposals = proposals


class AlgorithmSettings(Settings):
    """Settings that every algorithm has."""

    population: int = Field(default=16, ge=2, description="individuals that live at a time")


Breed = Callable[[int, np.random.Generator], Iterator[Proposal]]
"""``breed(slot, rng)``: the ``Algorithm.brood`` children of one mating, each made only when the iterator reaches it."""


class Algorithm(ABC):
    """One search algorithm.

    ``ask`` and ``tell`` are pure: the same arguments give the same answer, nothing else is read or changed, and all
    draws come from ``draw``. A generational driver asks for ``population`` proposals, then again and again for
    ``offspring`` of them, and tells each generation in slot order. A steady-state driver asks for ``population``
    proposals once and hands them out, then asks for one child at each event and tells each result alone.

    A subclass implements ``_breeder`` (how children are made) and ``_survive`` (which individuals are kept).
    """

    name: ClassVar[str]
    settings_class: ClassVar[type[AlgorithmSettings]] = AlgorithmSettings
    brood: ClassVar[int] = 1
    """Children per mating. With brood 2, slots 2k and 2k + 1 share one mating, drawn with the generator of slot 2k."""

    def __init__(self, settings: AlgorithmSettings | None = None) -> None:
        self.settings = settings if settings is not None else self.settings_class()

    @property
    def offspring(self) -> int:
        """Number of children in a generation after the first."""
        return self.settings.population

    def informed(self, foresee: Foresee) -> Algorithm:
        """The same algorithm, with what is known of a genome before its evaluation; itself where it has no use for it.

        What is foreseen belongs to the problem as the space does: equal genomes give equal answers.
        """
        return self

    def start(self) -> SearchState:
        """The state before the first ``tell``."""
        return SearchState()

    def ask(self, state: SearchState, space: Space[Any], draw: Draw, count: int, known: Known) -> list[Proposal]:
        """New genomes: the initial population before the first ``tell``, then children; samples without a population.

        The first half of the initial population are the space's designs (``Space.initial_designs``) in turn, where it
        has some; the others are random.

        Args:
            state: State after all results so far.
            space: Space of the genomes.
            draw: Generator for a slot and a purpose.
            count: Number of proposals; slots are 0 to count - 1.
            known: Whether a genome's hash has been proposed before in this run.

        Returns:
            ``count`` proposals in slot order, distinct from each other and from all that were proposed before.

        Raises:
            SpaceExhausted: Too many samples in a row were not new; the error holds the proposals so far.
        """
        litter = Litter(space, draw, known)
        if state.population:
            breed = self._breeder(state, space, count)
            matings = (breed(first, draw(first, "child/0")) for first in range(0, count, self.brood))
            # All children are made before the first is hashed: alternating takes a tenth longer for the same work.
            children = list(islice(chain.from_iterable(matings), count))
            for slot, child in enumerate(children):
                litter.add(slot, partial(_child, breed, draw, slot, child))
        else:
            designed = (count + 1) // 2 if state.told == 0 else 0
            for slot in range(count):
                if slot < designed:
                    litter.add(slot, partial(_design, space, draw, slot))
                else:
                    litter.add_sample(slot, {})
        return litter.proposals

    def tell(self, state: SearchState, scored: Sequence[Scored]) -> SearchState:
        """The state after these results; failed ones (``values`` None) are counted in ``told`` and dropped.

        Raises:
            UsageError: An individual is told twice, or the numbers of objectives differ.
        """
        children = tuple(individual for individual in scored if individual.values is not None)
        told = state.told + len(scored)
        if not children:
            return replace(state, told=told)
        pool = state.population + children
        if len({individual.id for individual in pool}) != len(pool):
            raise UsageError("an individual was told twice; each result is told once.")
        if len({len(individual.values or ()) for individual in pool}) != 1:
            raise UsageError("individuals of one run have one number of objectives.")
        population, standings = self._survive(state.population, children)
        return replace(state, population=population, standings=standings, told=told)

    @abstractmethod
    def _breeder(self, state: SearchState, space: Space[Any], count: int) -> Breed:
        """The function that makes children of this (not empty) population; ``count`` of them are needed."""

    @abstractmethod
    def _survive(
        self, parents: tuple[Scored, ...], children: tuple[Scored, ...]
    ) -> tuple[tuple[Scored, ...], tuple[int, ...]]:
        """The next population and its standings; ``children`` is not empty."""


def create(name: str, values: dict[str, Any] | None = None) -> Algorithm:
    """The algorithm of that name with these settings.

    Raises:
        UsageError: The algorithm does not exist, or its settings are wrong.
    """
    kind = ALGORITHMS.get(name)
    return kind(validate(kind.settings_class, values or {}, what=f"settings of algorithm {name!r}"))


class Litter:
    """The proposals of one ``ask``, each new in the run, in slot order."""

    MAX_REDRAWS = 100
    MAX_SAMPLES = 1000

    def __init__(self, space: Space[Any], draw: Draw, known: Known) -> None:
        self.proposals: list[Proposal] = []
        self._space = space
        self._draw = draw
        self._known = known
        self._hashes: set[str] = set()

    def add(self, slot: int, attempt: Callable[[int], Iterable[Proposal]]) -> None:
        """Add the first new proposal of ``attempt(0)``, ``attempt(1)``, …; a sample where none is new.

        Raises:
            SpaceExhausted: No sample was new either.
        """
        for redraws in range(self.MAX_REDRAWS + 1):
            proposal = None
            for proposal in attempt(redraws):
                if self._admit(proposal.genome):
                    if redraws:
                        proposal = replace(proposal, details=proposal.details | {"redraws": redraws})
                    self.proposals.append(proposal)
                    return
            if proposal is None:  # nothing to redraw: a space without designs
                break
        self.add_sample(slot, {"redraws": redraws} if redraws else {})

    def add_sample(self, slot: int, details: dict[str, Any]) -> None:
        """Add the first new random genome.

        Raises:
            SpaceExhausted: 1,000 in a row were proposed before.
        """
        rng = self._draw(slot, "sample")
        for redraws in range(self.MAX_SAMPLES):
            genome = self._space.sample(rng)
            if self._admit(genome):
                if redraws:
                    details = details | {"known_samples": redraws}
                self.proposals.append(Proposal(genome, (), "sample", details))
                return
        raise SpaceExhausted(self.proposals)

    def _admit(self, genome: Any) -> bool:
        genome_hash = self._space.hash(genome)
        if genome_hash in self._hashes or self._known(genome_hash):
            return False
        self._hashes.add(genome_hash)
        return True


def _child(breed: Breed, draw: Draw, slot: int, child: Proposal, attempt: int) -> Iterable[Proposal]:
    # A redrawn slot gets a mating of its own; sharing one again would make slot 2k + 1 depend on the redraws of 2k.
    return breed(slot, draw(slot, f"child/{attempt}")) if attempt else (child,)


def _design(space: Space[Any], draw: Draw, slot: int, attempt: int) -> Iterable[Proposal]:
    designs = space.initial_designs()
    name = list(designs)[slot % len(designs)]
    genome = designs[name](draw(slot, f"initial/{attempt}"))
    return () if genome is None else (Proposal(genome, (), "initial", {"design": name} if len(designs) > 1 else {}),)


ALGORITHMS.add("nsga2", "evodevo.search.algorithms.nsga2:NSGA2")
ALGORITHMS.add("genetic", "evodevo.search.algorithms.genetic_algorithm:GeneticAlgorithm")
ALGORITHMS.add("firefly", "evodevo.search.algorithms.firefly:Firefly")
ALGORITHMS.add("regularized", "evodevo.search.algorithms.regularized:RegularizedEvolution")
ALGORITHMS.add("surrogate", "evodevo.search.algorithms.surrogate.algorithm:Surrogate")
ALGORITHMS.add("random", "evodevo.search.algorithms.random_search:RandomSearch")

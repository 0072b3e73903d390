"""Ask and tell: the contract of every search algorithm, and the values that pass through it.

An algorithm holds settings and nothing else. What it has learnt is a ``State``, an immutable value: ``ask`` reads it,
``tell`` returns the next one. A driver that records what it told can therefore replay a run to the same proposals, in
any process, after any crash.
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
"""``draw(slot, purpose)``; the driver binds the run's seed and the generation (or, in steady state, the event)."""

Known = Callable[[str], bool]
"""Whether the genome of this hash is scored, failed or pending in this run already."""


@dataclass(frozen=True)
class Scored:
    """What an algorithm knows of an individual.

    Attributes:
        id: the individual's id, unique in the run.
        genome: its genome.
        values: all objectives as finite numbers to minimise; None = the evaluation failed.
        violation: sum of the constraint violations, finite and >= 0; 0 = feasible. Where it is positive, the values
            never influence how feasible individuals are judged; a genome that its constraints refused before any
            evaluation may carry any finite values, for example zeros.

    Raises:
        UsageError: a value that is not finite, no value at all, or a negative violation.
    """

    id: str
    genome: Any
    values: tuple[float, ...] | None
    violation: float = 0.0

    def __post_init__(self) -> None:
        if self.values is not None and not (self.values and all(map(math.isfinite, self.values))):
            raise UsageError(
                f"individual {self.id}: objective values are one or more finite numbers, got {self.values}; "
                "tell a failed evaluation as values=None."
            )
        if not (math.isfinite(self.violation) and self.violation >= 0):
            raise UsageError(f"individual {self.id}: a violation is finite and >= 0, got {self.violation}.")


@dataclass(frozen=True)
class Proposal:
    """A genome to be evaluated, and how it came to be.

    Attributes:
        genome: valid in the space, new in the run.
        parents: ids, in the order of their roles.
        operation: "initial", "sample", "mutation", "crossover", "crossover+mutation", "attraction" or
            "attraction+mutation".
        details: JSON-able; ``redraws`` counts the draws that gave nothing new before this one.
    """

    genome: Any
    parents: tuple[str, ...]
    operation: str
    details: dict[str, Any]


@dataclass(frozen=True)
class State:
    """All that a search remembers.

    Attributes:
        population: valid individuals only; a failed one is never here.
        standings: one number per individual, lower is better and equal is equal: how it was judged against the
            parents and children that it was told with.
        told: how many results have been told, failed ones included.
    """

    population: tuple[Scored, ...] = ()
    standings: tuple[int, ...] = ()
    told: int = 0

    def to_json(self, space: Space[Any]) -> dict[str, Any]:
        """Plain data; ``State.from_json(space, state.to_json(space)) == state``."""
        return {
            "told": self.told,
            "standings": list(self.standings),
            "population": [
                {
                    "id": one.id,
                    "genome": space.to_json(one.genome),
                    "values": list(one.values or ()),
                    "violation": one.violation,
                }
                for one in self.population
            ],
        }

    @classmethod
    def from_json(cls, space: Space[Any], data: Any) -> State:
        """Read what ``to_json`` wrote.

        Raises:
            UsageError: not such data, or a genome that is not of this space.
        """
        try:
            population = tuple(
                Scored(
                    str(row["id"]),
                    space.from_json(row["genome"]),
                    tuple(float(value) for value in row["values"]),
                    float(row["violation"]),
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
    """So many samples in a row were known already that the space counts as searched through; a regular end.

    Attributes:
        proposals: what this ask had found before; still worth evaluating.
    """

    exit_code = ExitCode.SUCCESS

    def __init__(self, proposals: list[Proposal]) -> None:
        super().__init__("the space is exhausted: 1,000 random genomes in a row had been proposed before.")
        self.proposals = proposals


class AlgorithmSettings(Settings):
    """What every algorithm has."""

    population: int = Field(default=16, ge=2, description="individuals that live at a time")


Breed = Callable[[int, np.random.Generator], Iterator[Proposal]]
"""``breed(slot, rng)``: the children of one mating, ``Algorithm.brood`` of them, each made when it is asked for."""


class Algorithm(ABC):
    """One search algorithm.

    ``ask`` and ``tell`` are pure: the same arguments give the same answer, nothing else is read or changed, and all
    draws come from ``draw``. A generational driver asks for ``population`` proposals, then again and again for
    ``offspring`` of them, and tells each generation in slot order. A steady-state driver asks for ``population``
    proposals once and hands them out, then asks for one child at each event and tells each result alone.

    A subclass gives ``_breeder`` (how children are made) and ``_survive`` (who lives on).
    """

    name: ClassVar[str]
    settings_class: ClassVar[type[AlgorithmSettings]] = AlgorithmSettings
    brood: ClassVar[int] = 1
    """Children per mating. The mating of slots 2k and 2k + 1, at brood 2, is drawn once, by the first of them."""

    def __init__(self, settings: AlgorithmSettings | None = None) -> None:
        self.settings = settings if settings is not None else self.settings_class()

    @property
    def offspring(self) -> int:
        """How many children make a generation after the first."""
        return self.settings.population

    def start(self) -> State:
        """The state before anything was told."""
        return State()

    def ask(self, state: State, space: Space[Any], draw: Draw, count: int, known: Known) -> list[Proposal]:
        """New genomes: founders while nothing has been told, then children, or samples where nobody lives.

        Founders in the first half of the slots are the space's simple designs (``Space.initial``) where it has some,
        the others random.

        Args:
            state: what was told so far.
            space: where the genomes live.
            draw: the generator for a slot and a purpose.
            count: how many; slots are 0 to count - 1.
            known: whether a genome's hash has been proposed before in this run.

        Returns:
            ``count`` proposals in slot order, distinct from each other and from all that is known.

        Raises:
            SpaceExhausted: with the proposals so far.
        """
        litter = Litter(space, draw, known)
        if state.population:
            breed = self._breeder(state, space, count)
            matings = (breed(first, draw(first, "child/0")) for first in range(0, count, self.brood))
            # All children first, then all hashes: the same work takes a tenth longer in turns.
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

    def tell(self, state: State, scored: Sequence[Scored]) -> State:
        """The state after these results; failed ones (``values`` None) count as told and are forgotten.

        Raises:
            UsageError: an individual told twice, or different numbers of objectives.
        """
        children = tuple(one for one in scored if one.values is not None)
        told = state.told + len(scored)
        if not children:
            return replace(state, told=told)
        pool = state.population + children
        if len({one.id for one in pool}) != len(pool):
            raise UsageError("an individual was told twice; each result is told once.")
        if len({len(one.values or ()) for one in pool}) != 1:
            raise UsageError("individuals of one run have one number of objectives.")
        population, standings = self._survive(state.population, children)
        return replace(state, population=population, standings=standings, told=told)

    @abstractmethod
    def _breeder(self, state: State, space: Space[Any], count: int) -> Breed:
        """The way children of this (not empty) population are made; ``count`` of them are wanted."""

    @abstractmethod
    def _survive(
        self, parents: tuple[Scored, ...], children: tuple[Scored, ...]
    ) -> tuple[tuple[Scored, ...], tuple[int, ...]]:
        """The next population and its standings; there is at least one child."""


def create(name: str, values: dict[str, Any] | None = None) -> Algorithm:
    """The algorithm of that name with these settings.

    Raises:
        UsageError: no such algorithm, or wrong settings.
    """
    kind = ALGORITHMS.get(name)
    return kind(validate(kind.settings_class, values or {}, what=f"settings of algorithm {name!r}"))


class Litter:
    """The proposals of one ask: each new, each in its slot."""

    MAX_REDRAWS = 100
    MAX_SAMPLES = 1000

    def __init__(self, space: Space[Any], draw: Draw, known: Known) -> None:
        self.proposals: list[Proposal] = []
        self._space = space
        self._draw = draw
        self._known = known
        self._hashes: set[str] = set()

    def add(self, slot: int, attempt: Callable[[int], Iterable[Proposal]]) -> None:
        """Take the first new proposal of ``attempt(0)``, ``attempt(1)``, …; a sample where there is none.

        Raises:
            SpaceExhausted: no sample was new either.
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
        """Take the first new random genome.

        Raises:
            SpaceExhausted: 1,000 in a row are known.
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
    # A slot that is redrawn has a mating of its own, and either child of it will do.
    return breed(slot, draw(slot, f"child/{attempt}")) if attempt else (child,)


def _design(space: Space[Any], draw: Draw, slot: int, attempt: int) -> Iterable[Proposal]:
    genome = space.initial(draw(slot, f"initial/{attempt}"))
    return () if genome is None else (Proposal(genome, (), "initial", {}),)


ALGORITHMS.add("nsga2", "evodevo.search.algorithms.nsga2:NSGA2")
ALGORITHMS.add("genetic", "evodevo.search.algorithms.genetic_algorithm:GeneticAlgorithm")
ALGORITHMS.add("firefly", "evodevo.search.algorithms.firefly:Firefly")
ALGORITHMS.add("regularized", "evodevo.search.algorithms.regularized:RegularizedEvolution")
ALGORITHMS.add("random", "evodevo.search.algorithms.random_search:RandomSearch")

"""The interface of a search space: genomes as plain data, and the operations under which they are closed.

A genome is an immutable value. It is stored and sent in an envelope ``{"space", "version", "genes"}``, and its hash is
over the canonical form of that envelope, so that two texts of one architecture are one individual.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Generic, TypeVar

import numpy as np

from evodevo import canonical
from evodevo.errors import GenomeError, UsageError

G = TypeVar("G", bound=Hashable)


class Space(ABC, Generic[G]):
    """The set of genomes of one kind.

    Public methods do the common work and call the hook of the same name with an underscore. Laws, tested by
    ``evodevo.testing.SpaceTests`` for every space: JSON and text round-trip; ``repair`` is idempotent and is the
    identity on valid genomes; every genome that ``sample``, ``mutate`` and ``crossover`` return is valid; all draws
    come from ``rng``, so that equal generators give equal genomes.
    """

    name: str
    version: int = 1

    # Drawing

    def sample(self, rng: np.random.Generator) -> G:
        """A random valid genome."""
        return self.repair(self._sample(rng), rng)

    def mutate(self, genome: G, rng: np.random.Generator) -> G:
        """A valid genome close to ``genome``; it may be equal to it."""
        return self.repair(self._mutate(genome, rng), rng)

    def at(self, generation: int) -> Space[G]:
        """The space as it is searched in a generation, counted from 0: the same genomes, possibly other mutations."""
        return self

    def mutation(self, genome: G, rng: np.random.Generator) -> tuple[G, dict[str, Any]]:
        """As ``mutate``, with JSON-able facts for the record of the child; spaces that have none give no facts.

        Facts that the engine knows: ``operations``, the names of what was done, and ``draws``, the number of draws, of
        which all but the last gave the same network.
        """
        return self.mutate(genome, rng), {}

    def crossover(self, a: G, b: G, rng: np.random.Generator) -> tuple[G, G]:
        """Two valid children that inherit from both parents."""
        left, right = self._crossover(a, b, rng)
        return self.repair(left, rng), self.repair(right, rng)

    def initial(self, rng: np.random.Generator) -> G | None:
        """A known simple design for the initial population; None where the space has none."""
        return None

    def initial_designs(self) -> Mapping[str, Callable[[np.random.Generator], G | None]]:
        """Name -> function that draws a design; the designed half of the initial population takes them in turn."""
        return {"initial": self.initial}

    def check_founder(self, genome: G) -> None:
        """Raise ``GenomeError`` if the genome is none that a search in this space can begin with."""
        self.check(genome)

    def at_depth(self, genome: G, depth: int) -> tuple[G, str]:
        """The genome made deeper or shallower by the space's own rule, and a sentence that says how it was done; empty
        where the genome has this depth already.

        Raises:
            UsageError: The space has no such rule.
            GenomeError: The rule does not lead to this depth.
        """
        raise UsageError(f"genomes of the space {self.name!r} have no depth to be changed; leave --depth out.")

    @property
    def named_genomes(self) -> tuple[str, ...]:
        """Words that ``parse`` reads as known genomes."""
        return ()

    @abstractmethod
    def repair(self, genome: G, rng: np.random.Generator) -> G:
        """The genome itself if it is valid, else a valid one close to it."""

    @abstractmethod
    def check(self, genome: G) -> None:
        """Raise ``GenomeError`` with position, value and what is allowed, if the genome is not valid."""

    @abstractmethod
    def _sample(self, rng: np.random.Generator) -> G: ...

    @abstractmethod
    def _mutate(self, genome: G, rng: np.random.Generator) -> G: ...

    @abstractmethod
    def _crossover(self, a: G, b: G, rng: np.random.Generator) -> tuple[G, G]: ...

    # Comparing

    @abstractmethod
    def segments(self, genome: G) -> tuple[Hashable, ...]:
        """The genome as a sequence of parts that crossover keeps whole (one LIV each, one coordinate each)."""

    @abstractmethod
    def join(self, segments: Sequence[Any]) -> G:
        """The inverse of ``segments``; the result may need ``repair``."""

    def distance(self, a: G, b: G) -> float:
        """Share of unequal segments, in [0, 1]; segments that only the longer genome has count as unequal."""
        left, right = self.segments(a), self.segments(b)
        longest = max(len(left), len(right))
        if longest == 0:
            return 0.0
        return 1.0 - sum(x == y for x, y in zip(left, right, strict=False)) / longest

    def canonical(self, genome: G) -> G:
        """The representative of all genomes that build the same model."""
        return genome

    def hash(self, genome: G) -> str:
        """64 hexadecimal digits, equal for genomes that build the same model."""
        return canonical.digest(self.to_json(self.canonical(genome)))

    # Writing

    @abstractmethod
    def parse(self, text: str) -> G:
        """The genome of a text form; raises ``GenomeError`` where the text is none."""

    @abstractmethod
    def print(self, genome: G) -> str:
        """The text form; ``parse(print(g)) == g``."""

    def title(self, genome: G) -> str:
        """Short name of the genome in tables; by default the text form."""
        return self.print(genome)

    def to_json(self, genome: G) -> dict[str, Any]:
        """The envelope of the genome, JSON-able."""
        return {"space": self.name, "version": self.version, "genes": self._to_genes(genome)}

    def from_json(self, envelope: Any) -> G:
        """The genome in an envelope; older versions are upgraded.

        Raises:
            GenomeError: The value is no envelope of this space, has a newer version, or holds an invalid genome.
        """
        if not isinstance(envelope, dict) or set(envelope) != {"space", "version", "genes"}:
            raise GenomeError('a genome is an object with exactly the keys "space", "version" and "genes".')
        if envelope["space"] != self.name:
            raise GenomeError(f"this genome is of space {envelope['space']!r}; {self.name!r} is wanted here.")
        version = envelope["version"]
        # Not isinstance: True and False are integers there.
        if type(version) is not int or not 1 <= version <= self.version:
            raise GenomeError(
                f"this genome has version {version!r}; this evodevo reads {self.name!r} genomes of version 1 to "
                f"{self.version}."
            )
        genome = self._from_genes(self.upgrade(envelope["genes"], version))
        self.check(genome)
        return genome

    def upgrade(self, genes: Any, version: int) -> Any:
        """Genes of an older version as genes of the current one; spaces with older versions override it."""
        return genes

    @abstractmethod
    def _to_genes(self, genome: G) -> Any: ...

    @abstractmethod
    def _from_genes(self, genes: Any) -> G: ...

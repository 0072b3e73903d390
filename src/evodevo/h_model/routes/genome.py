"""The genome of given routes, and how it is written.

Written form: ``8 17 26 | 0 3 1 2``: the slot that each iteration reads, then the layer of each symbol.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from evodevo.errors import GenomeError
from evodevo.h_model.routes.spec import RoutesStructure

MAX_TEXT = 1 << 19


@dataclass(frozen=True)
class RoutesGenome:
    """Routes by a table.

    Attributes:
        slots: First entry of the code that is read, for each iteration.
        layers: Place of the hidden layer that runs, for each symbol.
    """

    slots: tuple[int, ...]
    layers: tuple[int, ...]

    def structure(self, name: str) -> RoutesStructure:
        """The routes, read from the input of this name."""
        return RoutesStructure(input=name, slots=self.slots, layers=self.layers)


def print_genome(genome: RoutesGenome) -> str:
    """The written form."""
    return " | ".join(" ".join(map(str, part)) for part in (genome.slots, genome.layers))


def parse_genome(text: str) -> RoutesGenome:
    """Read the written form; the space checks whether the numbers are allowed.

    Raises:
        GenomeError: With what cannot be read, and the expected form.
    """
    if len(text) > MAX_TEXT:
        raise GenomeError(f"genome of routes: the text has {len(text)} characters; at most {MAX_TEXT} are read.")
    parts = [part.split() for part in text.split("|")]
    wrong = [word for part in parts for word in part if not (word.isascii() and word.isdigit() and len(word) < 10)]
    if len(parts) != 2 or not all(parts) or wrong:
        given = wrong[0][:40] if wrong else text.strip()[:60]
        raise GenomeError(f"genome of routes: {given!r} is not understood; write slots | layers, such as 8 17 | 0 2 1.")
    slots, layers = (tuple(map(int, part)) for part in parts)
    return RoutesGenome(slots, layers)


def genes_of(genome: RoutesGenome) -> dict[str, Any]:
    """The genome as plain data."""
    return {"slots": list(genome.slots), "layers": list(genome.layers)}


def genome_of(genes: Any) -> RoutesGenome:
    """The inverse of ``genes_of``, for data of any origin.

    Raises:
        GenomeError: Not such an object.
    """
    if not isinstance(genes, Mapping) or set(genes) != {"slots", "layers"}:
        raise GenomeError("the genes of routes are an object with exactly the keys slots and layers.")
    for name in ("slots", "layers"):
        # Not isinstance: True and False are integers there.
        if not isinstance(genes[name], list) or any(type(value) is not int for value in genes[name]):
            raise GenomeError(f"{name} of routes are a list of whole numbers.")
    return RoutesGenome(tuple(genes["slots"]), tuple(genes["layers"]))

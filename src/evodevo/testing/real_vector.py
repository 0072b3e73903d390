"""Points of the unit cube as genomes, with the operators of the NSGA-II paper, and the problems ZDT1 to ZDT3.

Operators: Deb, Agrawal 1995 (simulated binary crossover), Deb, Goyal 1996 (polynomial mutation), in their bounded
form. Problems: Zitzler, Deb, Thiele 2000; 30 variables, two objectives to minimise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evodevo.errors import GenomeError
from evodevo.search.space import Space

Point = tuple[float, ...]

ZDT_REFERENCE = (1.1, 1.1)
"""Reference point of the hypervolumes that pymoo is compared at."""


class RealVectorSpace(Space[Point]):
    """Points with ``dimensions`` coordinates in [0, 1].

    Args:
        dimensions: coordinates of a point.
        crossover_probability: probability of crossover for a pair, 0 to 1; otherwise the children are the parents.
        crossover_eta: larger = children nearer to their parents.
        mutation_probability: probability of mutation for a coordinate, 0 to 1; None = 1/dimensions.
        mutation_eta: larger = smaller steps.
    """

    name = "real-vector"

    def __init__(
        self,
        dimensions: int = 30,
        *,
        crossover_probability: float = 0.9,
        crossover_eta: float = 15.0,
        mutation_probability: float | None = None,
        mutation_eta: float = 20.0,
    ) -> None:
        self.dimensions = dimensions
        self.crossover_probability = crossover_probability
        self.crossover_eta = crossover_eta
        self.mutation_probability = 1 / dimensions if mutation_probability is None else mutation_probability
        self.mutation_eta = mutation_eta

    def check(self, genome: Point) -> None:
        if not isinstance(genome, tuple) or len(genome) != self.dimensions:
            raise GenomeError(f"a point has {self.dimensions} coordinates; this is {str(genome)[:80]}.")
        for position, value in enumerate(genome):
            if type(value) is not float or not 0.0 <= value <= 1.0:
                raise GenomeError(f"coordinate {position} is {value!r}; a number from 0 to 1 is allowed.")

    def repair(self, genome: Point, rng: np.random.Generator) -> Point:
        if len(genome) == self.dimensions and all(0.0 <= value <= 1.0 for value in genome):
            return genome
        known = [rng.random() if math.isnan(value) else min(max(float(value), 0.0), 1.0) for value in genome]
        missing = rng.random(max(self.dimensions - len(known), 0)).tolist()
        return tuple([*known, *missing][: self.dimensions])

    def _sample(self, rng: np.random.Generator) -> Point:
        return tuple(rng.random(self.dimensions).tolist())

    def _mutate(self, genome: Point, rng: np.random.Generator) -> Point:
        chosen = np.flatnonzero(rng.random(self.dimensions) < self.mutation_probability)
        if len(chosen) == 0:
            return genome
        result = list(genome)
        for place, u in zip(chosen.tolist(), rng.random(len(chosen)).tolist(), strict=True):
            result[place] = _polynomial_step(result[place], u, self.mutation_eta)
        return tuple(result)

    def _crossover(self, a: Point, b: Point, rng: np.random.Generator) -> tuple[Point, Point]:
        if rng.random() >= self.crossover_probability:
            return a, b
        left, right = np.array(a), np.array(b)
        crossed = (rng.random(self.dimensions) < 0.5) & (np.abs(left - right) > 1e-14)
        low, high = np.minimum(left, right)[crossed], np.maximum(left, right)[crossed]
        u = rng.random(len(low))
        middle, half = (low + high) / 2, (high - low) / 2
        near_low = middle - _spread(u, 1 + low / half, self.crossover_eta) * half
        near_high = middle + _spread(u, 1 + (1 - high) / half, self.crossover_eta) * half
        exchanged = rng.random(len(low)) < 0.5
        left[crossed] = np.where(exchanged, near_high, near_low).clip(0, 1)
        right[crossed] = np.where(exchanged, near_low, near_high).clip(0, 1)
        return tuple(left.tolist()), tuple(right.tolist())

    def segments(self, genome: Point) -> tuple[float, ...]:
        return genome

    def join(self, segments: Sequence[Any]) -> Point:
        return tuple(segments)

    def parse(self, text: str) -> Point:
        try:
            genome = tuple(float(word) for word in text.split())
        except ValueError:
            raise GenomeError(f"a point is numbers with spaces between; got {text[:80]!r}.") from None
        self.check(genome)
        return genome

    def print(self, genome: Point) -> str:
        return " ".join(map(repr, genome))

    def _to_genes(self, genome: Point) -> list[float]:
        return list(genome)

    def _from_genes(self, genes: Any) -> Point:
        if not isinstance(genes, list) or not all(type(gene) in (int, float) for gene in genes):
            raise GenomeError("the genes of a point are a list of numbers.")
        # Out-of-range integers must not overflow here; ``check`` refuses them by name.
        return tuple(float(gene) if 0 <= gene <= 1 else gene for gene in genes)


def _spread(u: NDArray[np.float64], beta: NDArray[np.float64], eta: float) -> NDArray[np.float64]:
    """Distance of a child from the middle of its parents, in half distances; the bound lies at ``beta``."""
    alpha = 2.0 - beta ** -(eta + 1.0)
    contracting = u * alpha
    return np.asarray(np.where(contracting <= 1.0, contracting, 1.0 / (2.0 - contracting)) ** (1.0 / (eta + 1.0)))


def _polynomial_step(value: float, u: float, eta: float) -> float:
    power = eta + 1.0
    step: float  # a power of floats is Any to the type checker
    if u < 0.5:
        step = (2.0 * u + (1.0 - 2.0 * u) * (1.0 - value) ** power) ** (1.0 / power) - 1.0
    else:
        step = 1.0 - (2.0 * (1.0 - u) + (2.0 * u - 1.0) * value**power) ** (1.0 / power)
    return min(max(value + step, 0.0), 1.0)


def zdt1(x: Point) -> tuple[float, float]:
    """Convex front f2 = 1 − √f1; its hypervolume at (1.1, 1.1) is 0.8767."""
    g = _g(x)
    return x[0], g * (1 - math.sqrt(x[0] / g))


def zdt2(x: Point) -> tuple[float, float]:
    """Concave front f2 = 1 − f1²; its hypervolume at (1.1, 1.1) is 0.5433."""
    g = _g(x)
    return x[0], g * (1 - (x[0] / g) ** 2)


def zdt3(x: Point) -> tuple[float, float]:
    """Front in five pieces; its hypervolume at (1.1, 1.1) is 1.3317 (1.3291 with the usual sample of points)."""
    g = _g(x)
    return x[0], g * (1 - math.sqrt(x[0] / g) - x[0] / g * math.sin(10 * math.pi * x[0]))


def _g(x: Point) -> float:
    return 1 + 9 * math.fsum(x[1:]) / (len(x) - 1)

"""The choice of finalists (STAR, section 5): the lowest validation loss among those below every baseline in cost."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Contender(Generic[T]):
    """One scored individual of a search.

    Attributes:
        individual: the individual.
        genome: identity of its architecture; of equal ones the first counts.
        loss: validation loss of the search, in any unit; lower is better.
        cost: number of parameters, or of bytes of the cache.
    """

    individual: T
    genome: Hashable
    loss: float
    cost: float


def choose_finalists(
    contenders: Iterable[Contender[T]], baseline_costs: Sequence[float], count: int
) -> list[Contender[T]]:
    """The best by loss among those whose cost is below that of every baseline, best first.

    The paper selects "the 8 models with the lowest perplexity among those with lower parameter counts (for quality and
    quality-size optimizations) or smaller cache size (for quality-cache optimization) than baseline models". Equal
    losses keep the order of birth. Fewer than ``count`` are returned where fewer are below.

    Args:
        contenders: individuals in order of birth.
        baseline_costs: costs of the baselines; without any, every contender is eligible.
        count: largest number of finalists.
    """
    bound = min(baseline_costs, default=float("inf"))
    eligible: dict[Hashable, Contender[T]] = {}
    for contender in contenders:
        if contender.cost < bound:
            eligible.setdefault(contender.genome, contender)
    return sorted(eligible.values(), key=lambda contender: contender.loss)[:count]

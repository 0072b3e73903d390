"""The only definition of "dominates": on test, ranges over seeds apart, against a tuned baseline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

DOMINATES = (
    "One model dominates another where, on the test split, every measured goal of each of its seeds is better than "
    "that of each seed of the other (two seeds or more on both sides), no exact goal (size, cache) is worse, and the "
    "other was trained at its own tuned learning rate."
)
"""The definition, for readers."""

Relation = Literal["better", "worse", "open"]


@dataclass(frozen=True)
class GoalValues:
    """One goal of one model.

    Attributes:
        values: values on the test split, one per seed; one where the value is exact.
        exact: whether the value follows from the architecture alone, and has no spread.
        higher_is_better: whether larger values are better.
    """

    values: Sequence[float]
    exact: bool = False
    higher_is_better: bool = False

    def costs(self) -> list[float]:
        """The values, smaller ones better."""
        return [-value if self.higher_is_better else value for value in self.values]


def relation(ours: GoalValues, theirs: GoalValues) -> Relation:
    """Whether ours is better or worse beyond the ranges over seeds; open where they touch or one seed is all there is.

    Exact values need no seeds; equal ones are open.
    """
    own, other = ours.costs(), theirs.costs()
    if not own or not other:
        return "open"
    if not (ours.exact and theirs.exact) and min(len(own), len(other)) < 2:
        return "open"
    if max(own) < min(other):
        return "better"
    return "worse" if min(own) > max(other) else "open"


def dominates(ours: Mapping[str, GoalValues], theirs: Mapping[str, GoalValues]) -> bool:
    """Whether one model dominates another; see ``DOMINATES``. Goals that only one of both has do not count.

    Args:
        ours: goal -> values of the candidate.
        theirs: goal -> values of the baseline at its own tuned learning rate.
    """
    relations = {name: relation(ours[name], theirs[name]) for name in ours if name in theirs}
    if "better" not in relations.values():
        return False
    return all(
        relation_of == "better" or (relation_of == "open" and ours[name].exact and theirs[name].exact)
        for name, relation_of in relations.items()
    )

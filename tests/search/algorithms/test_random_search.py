"""Random search remembers nothing but how much it was told."""

from __future__ import annotations

from evodevo.search.base import SearchState, create
from evodevo.testing.algorithms import two_objectives
from evodevo.testing.bare_search import generational
from evodevo.testing.tabular import CellSpace


def test_it_only_samples_and_never_repeats() -> None:
    history = generational(create("random"), CellSpace(), two_objectives, seed=1, evaluations=200)
    assert {one.operation for one in history.proposals} == {"sample"}
    assert len({one.genome for one in history.proposals}) == 200
    assert history.state == SearchState(told=200)


def test_scores_make_no_difference() -> None:
    def opposite(genome: tuple[int, ...]) -> tuple[float, ...]:
        return tuple(-value for value in two_objectives(genome))

    one, other = (
        generational(create("random"), CellSpace(), evaluate, seed=1, evaluations=64)
        for evaluate in (two_objectives, opposite)
    )
    assert one.proposals == other.proposals

"""From whom a child inherits: the better parent by its standing first."""

from __future__ import annotations

import pytest

from evodevo.search.base import Proposal, Scored, SearchState
from evodevo.search.inheritance import DONORS, with_donors

STATE = SearchState(
    population=tuple(Scored(name, name, (0.0,)) for name in "abc"),
    standings=(2, 0, 2),
    told=3,
)


@pytest.mark.parametrize(
    ("parents", "donors"),
    [
        (("a", "b"), ["b", "a"]),
        (("c", "a"), ["c", "a"]),  # of equally good parents the first by role
        (("a", "a"), ["a"]),
        (("gone", "a"), ["a"]),
    ],
)
def test_donors_are_the_better_parents(parents: tuple[str, ...], donors: list[str]) -> None:
    child = Proposal("x", parents, "crossover", {"redraws": 0})
    assert with_donors(child, STATE).details == {"redraws": 0, DONORS: donors}


def test_nobody_inherits_from_those_that_are_gone() -> None:
    child = Proposal("x", ("gone",), "mutation", {})
    assert with_donors(child, STATE) is child

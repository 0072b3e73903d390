"""From whom a child inherits: the better parent by its standing first, and as many as are allowed."""

from __future__ import annotations

import pytest

from evodevo.search.base import Proposal, Scored, SearchState
from evodevo.search.inheritance import DONORS, InheritanceSettings, with_donors

STATE = SearchState(
    population=tuple(Scored(name, name, (0.0,)) for name in "abc"),
    standings=(2, 0, 2),
    told=3,
)


@pytest.mark.parametrize(
    ("parents", "most", "donors"),
    [
        (("a", "b"), 2, ["b", "a"]),
        (("a", "b"), 1, ["b"]),
        (("c", "a"), 1, ["c"]),  # of equally good parents the first by role
        (("a", "a"), 2, ["a"]),
        (("gone", "a"), 1, ["a"]),
    ],
)
def test_donors_are_the_better_parents(parents: tuple[str, ...], most: int, donors: list[str]) -> None:
    child = Proposal("x", parents, "crossover", {"redraws": 0})
    assert with_donors(child, STATE, most).details == {"redraws": 0, DONORS: donors}


def test_nobody_inherits_from_those_that_are_gone() -> None:
    child = Proposal("x", ("gone",), "mutation", {})
    assert with_donors(child, STATE, 1) is child


def test_records_of_before_have_two_donors() -> None:
    assert InheritanceSettings().model_dump() == {"budget": 1.0}
    assert InheritanceSettings(donors=1).model_dump() == {"budget": 1.0, "donors": 1}

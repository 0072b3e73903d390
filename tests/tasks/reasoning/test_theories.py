"""Sets of literals as bits, and what one small theory says."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from evodevo.randomness import generator
from evodevo.tasks.reasoning import theories
from evodevo.tasks.reasoning.theories import ABSENT, EVERYONE, Theories

SETS = st.sets(st.integers(0, 63))


def as_bits(members: set[int]) -> np.ndarray:
    return np.asarray([sum(1 << member for member in members)], dtype=np.uint64)


@given(SETS)
def test_a_set_is_its_members_and_negation_swaps_a_and_not_a(members: set[int]) -> None:
    assert set(np.flatnonzero(theories.members(as_bits(members), 32)[0]).tolist()) == members
    negated = theories.negations(as_bits(members))
    assert set(np.flatnonzero(theories.members(negated, 32)[0]).tolist()) == {member ^ 1 for member in members}
    np.testing.assert_array_equal(theories.negations(negated), as_bits(members))


def small(subject: int = EVERYONE) -> Theories:
    """Entity 0 is a; a gives b; b and c give d; entity 1 is c; entity 0 is c; e gives e."""
    a, b, c, d, e = range(0, 10, 2)
    return Theories(
        fact_entity=np.asarray([[0, 1, 0]]),
        fact_literal=np.asarray([[a, c, c]]),
        rule_subject=np.asarray([[subject, EVERYONE, EVERYONE]]),
        rule_body=np.asarray([[[a, ABSENT], [b, c], [e, ABSENT]]]),
        rule_head=np.asarray([[b, d, e]]),
    )


def literals(sets: np.ndarray, entity: int) -> set[int]:
    return set(np.flatnonzero(theories.members(sets, 5)[0, entity, ::2]).tolist())


def test_levels_of_a_small_theory() -> None:
    verdicts = theories.prove(small(), entities=2, depth=3)
    assert [literals(verdicts.proven_at(depth), 0) for depth in range(4)] == [{0, 2}, {1}, {3}, set()]
    assert [literals(verdicts.proven_at(depth), 1) for depth in range(4)] == [{2}, set(), set(), set()]
    # For entity 1 nothing gives a, so b fails one level later and d after that; e runs in a circle for ever.
    assert [literals(verdicts.refuted_at(depth), 1) for depth in range(4)] == [{0}, {1}, {3}, set()]
    assert literals(verdicts.refuted[-1], 0) == set()
    assert verdicts.consistent.tolist() == [True]
    # A rule about one is no rule about another.
    verdicts = theories.prove(small(subject=1), entities=2, depth=3)
    assert literals(verdicts.proven[-1], 0) == {0, 2}
    assert literals(verdicts.refuted_at(0), 0) == {1}


def test_a_contradiction_and_facts_said_twice_are_seen() -> None:
    theory = small()
    assert theories.repeated_facts(theory).tolist() == [False]
    theory.rule_head[0, 1] = 1  # b and c give not a
    assert theories.prove(theory, entities=2, depth=0).consistent.tolist() == [False], "however deep"
    theory.fact_entity[0, 1] = 0
    assert theories.repeated_facts(theory).tolist() == [True]


def test_drawn_chains_hold_for_entity_0_and_fail_for_entity_1_somewhere() -> None:
    drawn = theories.draw(
        generator(0), 2_000, entities=3, attributes=8, facts=5, rules=7, chain=5, negation=False
    )  # fmt: skip
    verdicts = theories.prove(drawn, entities=3, depth=5)
    top = np.uint64(1) << np.uint64(2 * 5)
    assert ((verdicts.proven[-1][:, 0] & top) != 0).all()
    assert ((verdicts.proven_at(5)[:, 0] & top) != 0).mean() > 0.2
    assert ((verdicts.refuted_at(5)[:, 1] & top) != 0).mean() > 0.05

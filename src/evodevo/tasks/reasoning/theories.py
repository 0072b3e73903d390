"""Random theories of facts and rules, many at once, and a prover that computes the depth of each proof.

A literal is an attribute or its negation: attribute a is literal 2a, "not a" is literal 2a + 1. A set of literals is
the bits of one 64-bit number, so that a round of forward chaining over all rules of all theories is a few operations.

Shapes: N theories, E entities, F facts, R rules, D + 1 depths 0...D.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

Sets = NDArray[np.uint64]
"""Sets of literals."""

ABSENT = -1
EVERYONE = -1
MAX_ATTRIBUTES = 32
_EVEN = np.uint64(0x5555_5555_5555_5555)
_ONE = np.uint64(1)
_EMPTY = np.uint64(0)

_SECOND_CONDITION = 0.5
_ABOUT_ONE_CHAIN = 0.1
_ABOUT_ONE_OTHER = 0.3


@dataclass(frozen=True)
class Theories:
    """N theories of equal size.

    Attributes:
        fact_entity: Entity of each fact, (N, F).
        fact_literal: Literal of each fact, (N, F).
        rule_subject: Entity to which each rule applies, or EVERYONE, (N, R).
        rule_body: Literals that are the conditions of each rule, (N, R, 2); the second may be ABSENT.
        rule_head: Literal that follows from each rule, (N, R).
    """

    fact_entity: NDArray[np.int64]
    fact_literal: NDArray[np.int64]
    rule_subject: NDArray[np.int64]
    rule_body: NDArray[np.int64]
    rule_head: NDArray[np.int64]

    def take(self, indices: NDArray[Any]) -> Theories:
        """The theories at these indices (integers or booleans)."""
        return Theories(*(getattr(self, field.name)[indices] for field in fields(self)))


@dataclass(frozen=True)
class Verdicts:
    """The consequences of theories, by depth.

    Attributes:
        proven: Sets of literals whose shortest proof applies at most that many rules in a row, (D + 1, N, E).
        refuted: Sets of literals for which a search of at most that depth shows that they have no proof, (D + 1, N, E):
            each rule that concludes them has a condition that is refuted one level before; at depth 0 there is no fact
            and no rule for them.
        consistent: Whether no entity has both a literal and its negation, (N,).
    """

    proven: Sets
    refuted: Sets
    consistent: NDArray[np.bool_]

    def take(self, indices: NDArray[Any]) -> Verdicts:
        """The verdicts of the theories at these indices (integers or booleans)."""
        return Verdicts(self.proven[:, indices], self.refuted[:, indices], self.consistent[indices])

    def proven_at(self, depth: int) -> Sets:
        """Sets of literals whose shortest proof has exactly this depth, (N, E)."""
        return _exactly(self.proven, depth)

    def refuted_at(self, depth: int) -> Sets:
        """Sets of literals without proof, which is shown at exactly this depth, (N, E)."""
        return _exactly(self.refuted, depth)

    def open_at(self, depth: int) -> Sets:
        """Sets of literals without proof of themselves or their negation, shown at exactly this depth, (N, E)."""
        return _exactly(self.refuted & negations(self.refuted), depth)


def draw(
    rng: np.random.Generator,
    count: int,
    *,
    entities: int,
    attributes: int,
    facts: int,
    rules: int,
    chain: int,
    negation: bool,
) -> Theories:
    """Random theories with one chain of rules through attributes 0, 1, ..., ``chain`` in each.

    Entity 0 begins the chain. Attribute ``chain + 1`` is the second condition of some of its rules and is given to
    entities 0 and 1, so that for entity 1 the same chain fails at its beginning: the form of a theory does not depend
    on its question. Facts are distributed evenly, because otherwise the entity with most facts would be the one that
    begins the chain.

    Args:
        rng: Generator of all draws.
        count: Number of theories N.
        entities: Number of entities E.
        attributes: Number of attributes, at least ``chain + 2``.
        facts: Number of facts F, at least 3.
        rules: Number of rules R, at least ``chain``.
        chain: Number of rules in the chain.
        negation: Whether literals of facts and rules may be negated.
    """

    def literals(shape: tuple[int, ...]) -> NDArray[np.int64]:
        return rng.integers(0, 2 if negation else 1, shape)

    links = 2 * np.arange(chain + 2) + literals((count, chain + 2))
    shared = links[:, -1]

    order = np.argsort(rng.random((count, rules, attributes)), axis=2)[:, :, :3]
    order = 2 * order + literals(order.shape)
    body, head = order[:, :, :2], order[:, :, 2]
    body[:, :chain, 0], body[:, :chain, 1], head[:, :chain] = links[:, :chain], shared[:, None], links[:, 1 : chain + 1]
    body[:, :, 1][rng.random((count, rules)) >= _SECOND_CONDITION] = ABSENT

    about_one = np.where(np.arange(rules) < chain, _ABOUT_ONE_CHAIN, _ABOUT_ONE_OTHER)
    subject = rng.integers(0, entities, (count, rules))
    subject[:, :chain] = 0
    subject[rng.random((count, rules)) >= about_one] = EVERYONE

    entity = np.tile(_even_shares(facts, entities), (count, 1))
    literal = 2 * rng.integers(0, attributes, (count, facts)) + literals((count, facts))
    literal[:, 0], literal[:, 1], literal[:, 2] = links[:, 0], shared, shared
    return Theories(entity, literal, subject, body, head)


def prove(theories: Theories, entities: int, depth: int) -> Verdicts:
    """Compute all consequences by forward chaining, level by level, and finite failure, level by level.

    Args:
        theories: N theories.
        entities: Number of entities E.
        depth: Deepest level D of the verdicts.
    """
    count, rules = theories.rule_head.shape
    bodies = _bits(theories.rule_body[:, :, 0]) | _bits(theories.rule_body[:, :, 1])
    bodies, heads = bodies[:, None, :], _bits(theories.rule_head)[:, None, :]
    subject = theories.rule_subject[:, None, :]
    applies = (subject == EVERYONE) | (subject == np.arange(entities)[:, None])  # (N, E, R)

    known = np.zeros((count, entities), np.uint64)
    np.bitwise_or.at(known, (np.arange(count)[:, None], theories.fact_entity), _bits(theories.fact_literal))
    proven = [known]
    # A literal's shortest proof uses each rule at most once for its entity.
    for _ in range(max(depth, rules)):
        fires = applies & ((known[:, :, None] & bodies) == bodies)
        known = known | np.bitwise_or.reduce(np.where(fires, heads, _EMPTY), axis=2)
        proven.append(known)

    possible = applies
    refuted: list[Sets] = []
    for _ in range(depth + 1):
        failed = ~(known | np.bitwise_or.reduce(np.where(possible, heads, _EMPTY), axis=2))
        refuted.append(failed)
        possible = applies & ((failed[:, :, None] & bodies) == _EMPTY)
    consistent: NDArray[np.bool_] = ((known & negations(known)) == _EMPTY).all(axis=1)
    return Verdicts(np.stack(proven[: depth + 1]), np.stack(refuted), consistent)


def mentioned(theories: Theories) -> Sets:
    """Sets of the literals that occur in a theory, and their negations. Shape (N,)."""
    body = theories.rule_body
    literals = np.concatenate([theories.fact_literal, body[:, :, 0], body[:, :, 1], theories.rule_head], axis=1)
    together: Sets = np.bitwise_or.reduce(_bits(literals), axis=1)
    return together | negations(together)


def repeated_facts(theories: Theories) -> NDArray[np.bool_]:
    """Whether a theory states a fact twice. Shape (N,)."""
    codes = np.sort(theories.fact_entity * 2 * MAX_ATTRIBUTES + theories.fact_literal, axis=1)
    repeated: NDArray[np.bool_] = (codes[:, 1:] == codes[:, :-1]).any(axis=1)
    return repeated


def negations(sets: Sets) -> Sets:
    """The sets with each literal replaced by its negation; adjacent bits are swapped."""
    swapped: Sets = ((sets & _EVEN) << _ONE) | ((sets >> _ONE) & _EVEN)
    return swapped


def members(sets: Sets, attributes: int) -> NDArray[np.bool_]:
    """Sets as booleans. Shape (..., 2 * attributes)."""
    bits = np.arange(2 * attributes, dtype=np.uint64)
    inside: NDArray[np.bool_] = ((sets[..., None] >> bits) & _ONE) == _ONE
    return inside


def _even_shares(facts: int, entities: int) -> NDArray[np.int64]:
    """Entity of each fact: 0, 0 and 1, then always one of those with the fewest facts. Shape (F,)."""
    shares = [0, 0, 1]
    while len(shares) < facts:
        shares.append(int(np.bincount(shares, minlength=entities).argmin()))
    return np.array(shares, np.int64)


def _bits(literals: NDArray[np.int64]) -> Sets:
    """Sets of one literal each; the empty set where it is ABSENT. Same shape."""
    shift = np.maximum(literals, 0).astype(np.uint64)
    bits: Sets = np.where(literals == ABSENT, _EMPTY, _ONE << shift)
    return bits


def _exactly(levels: Sets, depth: int) -> Sets:
    exact: Sets = levels[depth] if depth == 0 else levels[depth] & ~levels[depth - 1]
    return exact

"""Which questions a theory has, and further ones that are asked of it beside its own while training.

Shapes: N theories, E entities, A attributes, Q further questions.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evodevo.tasks.reasoning import theories

NOT_ASKED = -1


@dataclass(frozen=True)
class Cell:
    """A kind of question: how deep, which answer, and whether it asks "is not"."""

    depth: int
    answer: int
    negated: int


@dataclass(frozen=True)
class Questions:
    """Each (N, Q): whom it asks about, what it asks, and its cell; NOT_ASKED in all three where there is none."""

    entity: NDArray[np.int64]
    literal: NDArray[np.int64]
    cell: NDArray[np.int64]


def possible(
    drawn: theories.Theories, verdicts: theories.Verdicts, attributes: int, world: str, cell: Cell
) -> NDArray[np.bool_]:
    """Statements that each theory speaks of and that belong to a cell. Shape (N, E, 2 A)."""
    statements = _statements(verdicts, world, cell) & theories.mentioned(drawn)[:, None]
    sign = np.arange(2 * attributes) % 2 == cell.negated
    found: NDArray[np.bool_] = theories.members(statements, attributes) & sign
    return found


def pick(rng: np.random.Generator, candidates: NDArray[np.bool_]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Entity and literal (N,) of one of each theory's candidates (N, E, 2 A), all equally likely."""
    flat = candidates.reshape(len(candidates), candidates.shape[1] * candidates.shape[2])
    picked = np.where(flat, rng.random(flat.shape), -1).argmax(axis=1)
    entity, literal = np.divmod(picked, candidates.shape[2])
    return entity, literal


def further(
    rng: np.random.Generator,
    drawn: theories.Theories,
    verdicts: theories.Verdicts,
    attributes: int,
    world: str,
    cells: list[Cell],
    shares: NDArray[np.float64],
    count: int,
) -> Questions:
    """Distinct questions of random cells; fewer than ``count`` where a theory has no more of a cell.

    Args:
        rng: draws cells and statements.
        drawn: N theories.
        verdicts: what follows from them.
        attributes: A.
        world: closed or open.
        cells: to choose from.
        shares: how often each is wanted, in any unit.
        count: Q.
    """
    size = len(drawn.rule_head)
    by_cell = [possible(drawn, verdicts, attributes, world, cell) for cell in cells]
    found = Questions(*(np.full((size, count), NOT_ASKED) for _ in range(3)))
    for column in range(count):
        wanted = rng.choice(len(cells), size, p=shares / shares.sum())
        for number, candidates in enumerate(by_cell):
            rows = np.flatnonzero((wanted == number) & candidates.any(axis=(1, 2)))
            if len(rows):
                entity, literal = pick(rng, candidates[rows])
                found.entity[rows, column], found.literal[rows, column] = entity, literal
                found.cell[rows, column] = number
                candidates[rows, entity, literal] = False
    return found


def even(rng: np.random.Generator, cells: list[Cell], cell: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which further questions are kept, so that all answers are equally frequent at each depth in each form.

    Args:
        rng: chooses among those of the commoner answers.
        cells: what numbers mean.
        cell: (N, Q), number of each question's cell, or NOT_ASKED.
    """
    flat = cell.reshape(-1)
    counts = np.bincount(flat[flat != NOT_ASKED], minlength=len(cells))
    kept = np.zeros(len(flat), np.bool_)
    for number, one in enumerate(cells):
        rivals = [
            place for place, other in enumerate(cells) if (other.depth, other.negated) == (one.depth, one.negated)
        ]
        kept[rng.permutation(np.flatnonzero(flat == number))[: counts[rivals].min()]] = True
    return kept.reshape(cell.shape)


def _statements(verdicts: theories.Verdicts, world: str, cell: Cell) -> theories.Sets:
    """Per theory and entity the statements, as literals, of a cell. Shape (N, E).

    Those of a closed world are all negated or all not; of an open world they may be either.
    """
    proven = verdicts.proven_at(cell.depth)
    if world == "open":
        return (proven, theories.negations(proven), verdicts.open_at(cell.depth))[cell.answer]
    # Of a closed world's literals only attributes are proven; "not a" is true where the search for a fails.
    attributes = proven if cell.answer == cell.negated else verdicts.refuted_at(cell.depth)
    return theories.negations(attributes) if cell.negated else attributes

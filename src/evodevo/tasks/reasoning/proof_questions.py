"""Choice of questions about theories: the possible ones, and further ones for each training theory.

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
    """A kind of question: depth of its proof, index of its answer, and whether it asks "is not" (0 or 1)."""

    depth: int
    answer: int
    negated: int


@dataclass(frozen=True)
class Questions:
    """Questions about N theories, NOT_ASKED in all fields where there is none.

    Attributes:
        entity: Index of the entity, (N, Q).
        literal: Literal of the statement, (N, Q).
        cell: Index of the question's cell, (N, Q).
    """

    entity: NDArray[np.int64]
    literal: NDArray[np.int64]
    cell: NDArray[np.int64]


def possible(
    drawn: theories.Theories, verdicts: theories.Verdicts, attributes: int, world: str, cell: Cell
) -> NDArray[np.bool_]:
    """Whether each statement is mentioned in a theory and belongs to a cell. Shape (N, E, 2 A)."""
    statements = _statements(verdicts, world, cell) & theories.mentioned(drawn)[:, None]
    sign = np.arange(2 * attributes) % 2 == cell.negated
    allowed: NDArray[np.bool_] = theories.members(statements, attributes) & sign
    return allowed


def pick(rng: np.random.Generator, candidates: NDArray[np.bool_]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Entity and literal, each (N,), of one of each theory's candidates (N, E, 2 A), uniformly drawn."""
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
        rng: Generator of cells and statements.
        drawn: N theories.
        verdicts: Consequences of the theories.
        attributes: Number of attributes A.
        world: "closed" or "open".
        cells: Cells to choose from.
        shares: Frequency of each cell, in any unit, (cells,).
        count: Number of questions Q.
    """
    size = len(drawn.rule_head)
    by_cell = [possible(drawn, verdicts, attributes, world, cell) for cell in cells]
    chosen = Questions(*(np.full((size, count), NOT_ASKED) for _ in range(3)))
    for column in range(count):
        wanted = rng.choice(len(cells), size, p=shares / shares.sum())
        for number, candidates in enumerate(by_cell):
            rows = np.flatnonzero((wanted == number) & candidates.any(axis=(1, 2)))
            if len(rows):
                entity, literal = pick(rng, candidates[rows])
                chosen.entity[rows, column], chosen.literal[rows, column] = entity, literal
                chosen.cell[rows, column] = number
                candidates[rows, entity, literal] = False
    return chosen


def even(rng: np.random.Generator, cells: list[Cell], cell: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether each further question is kept, so that all answers are equally frequent at each depth in each form.

    Args:
        rng: Generator of the choice among questions with the more frequent answers.
        cells: Cells to which the indices refer.
        cell: Index of each question's cell, or NOT_ASKED, (N, Q).

    Returns:
        Shape (N, Q).
    """
    flat = cell.reshape(-1)
    counts = np.bincount(flat[flat != NOT_ASKED], minlength=len(cells))
    kept = np.zeros(len(flat), np.bool_)
    for number, kind in enumerate(cells):
        rivals = [
            index for index, other in enumerate(cells) if (other.depth, other.negated) == (kind.depth, kind.negated)
        ]
        kept[rng.permutation(np.flatnonzero(flat == number))[: counts[rivals].min()]] = True
    return kept.reshape(cell.shape)


def _statements(verdicts: theories.Verdicts, world: str, cell: Cell) -> theories.Sets:
    """Per theory and entity the statements, as literals, of a cell. Shape (N, E).

    In a closed world they are all negated or all not; in an open world they may be either.
    """
    proven = verdicts.proven_at(cell.depth)
    if world == "open":
        return (proven, theories.negations(proven), verdicts.open_at(cell.depth))[cell.answer]
    # In a closed world only attributes are proven; "not a" is true where the search for a proof of a fails.
    attributes = proven if cell.answer == cell.negated else verdicts.refuted_at(cell.depth)
    return theories.negations(attributes) if cell.negated else attributes

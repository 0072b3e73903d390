"""Comparison under several objectives, all minimised: dominance, ranks, crowding distance, hypervolume.

The only file that imports moocore; arguments and results are numpy arrays, rows are individuals, columns objectives.
"""

from __future__ import annotations

import moocore
import numpy as np
from numpy.typing import ArrayLike, NDArray

from evodevo.errors import UsageError

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Booleans = NDArray[np.bool_]


def dominates(a: ArrayLike, b: ArrayLike, violation_a: float = 0.0, violation_b: float = 0.0) -> bool:
    """Whether ``a`` is better than ``b`` (Deb et al. 2002, section VI: constrained domination).

    A feasible individual dominates an infeasible one; of two infeasible ones the smaller violation dominates, whatever
    the objectives; of two feasible ones, the one that is nowhere worse and somewhere better.

    Args:
        a: Objective values of the first individual, shape (objectives,).
        b: Objective values of the second, shape (objectives,).
        violation_a: Constraint violation of ``a``, >= 0; 0 = feasible.
        violation_b: Constraint violation of ``b``, likewise.
    """
    if violation_a > 0 or violation_b > 0:
        return violation_a < violation_b
    left, right = np.asarray(a, dtype=float), np.asarray(b, dtype=float)
    return bool(np.all(left <= right) and np.any(left < right))


def ranks(values: ArrayLike) -> Integers:
    """Non-dominated sorting: 0 for the front, 1 for the front without it, …; equal points have equal ranks.

    Args:
        values: Objective values, shape (individuals, objectives); infinities are allowed.

    Returns:
        Ranks from 0, shape (individuals,).

    Raises:
        UsageError: A value is NaN, or the array is not two-dimensional.
    """
    rows = _table(values)
    # Only the order within a column counts, so each value is replaced by its position in that order: moocore 0.3.2
    # reads beyond its memory (a segmentation fault) where one of three or more objectives is minus infinity.
    order = np.empty_like(rows)
    for column in range(rows.shape[1]):
        order[:, column] = np.unique(rows[:, column], return_inverse=True)[1]
    return np.asarray(moocore.pareto_rank(order), dtype=np.int64)


def constrained_ranks(values: ArrayLike, violations: ArrayLike) -> Integers:
    """Non-dominated sorting under constrained domination.

    Args:
        values: Objective values, shape (individuals, objectives); rows with a violation are ignored.
        violations: Constraint violations, shape (individuals,), >= 0.

    Returns:
        Ranks, shape (individuals,): feasible individuals by ``ranks``, then one rank for each size of violation.
    """
    rows, excess = _table(values), np.asarray(violations, dtype=float)
    feasible = excess <= 0
    result = np.zeros(len(rows), dtype=np.int64)
    result[feasible] = ranks(rows[feasible])
    if not feasible.all():
        # Any feasible individual dominates all infeasible ones, and unequal violations form a chain.
        below = result[feasible].max() + 1 if feasible.any() else 0
        result[~feasible] = below + np.unique(excess[~feasible], return_inverse=True)[1]
    return result


def front(values: ArrayLike, violations: ArrayLike | None = None) -> Integers:
    """Indices of the feasible non-dominated individuals, ascending; empty where none is feasible.

    Args:
        values: Objective values, shape (individuals, objectives).
        violations: Constraint violations, shape (individuals,), >= 0; None = all feasible.
    """
    rows = _table(values)
    excess = np.zeros(len(rows)) if violations is None else np.asarray(violations, dtype=float)
    return np.flatnonzero((constrained_ranks(rows, excess) == 0) & (excess <= 0))


def crowding(values: ArrayLike, ranks: ArrayLike) -> Floats:
    """The crowding distance of each individual within its rank (star.txt, A.4, footnote 7).

    Sum over the objectives of the gap between an individual's two neighbours, divided by the range of its rank;
    infinite at both ends. An objective that is constant within a rank adds 0. Of individuals with equal values the
    first keeps the distance and its copies get 0, so that copies are removed first.

    Args:
        values: Objective values, shape (individuals, objectives), finite.
        ranks: Rank of each individual, shape (individuals,).

    Returns:
        Crowding distances, shape (individuals,), in [0, inf].
    """
    rows, groups = _table(values), np.asarray(ranks)
    result = np.zeros(len(rows))
    kept = np.flatnonzero(_first_of_equals(rows, groups))
    rows, groups = rows[kept], groups[kept]
    if len(rows) == 0:
        return result
    distance = np.zeros(len(rows))
    # All ranks at once, without a Python loop over them: sorted by rank and then by value, each is one slice.
    for column in rows.T:
        order = np.lexsort((column, groups))
        sorted_groups = groups[order]
        starts = np.flatnonzero(np.r_[True, sorted_groups[1:] != sorted_groups[:-1]])
        ends = np.r_[starts[1:], len(order)] - 1
        # Halved, because the difference of two finite floats can overflow to infinity.
        halves = column[order] / 2
        spans = halves[ends] - halves[starts]
        lengths = ends - starts + 1
        gaps = np.zeros(len(order))
        gaps[1:-1] = halves[2:] - halves[:-2]
        varied = spans > 0
        gaps[starts[varied]] = gaps[ends[varied]] = np.inf
        gaps[starts[~varied]] = gaps[ends[~varied]] = 0.0
        gaps /= np.repeat(np.where(varied, spans, 1.0), lengths)
        gaps[np.repeat(~varied, lengths)] = 0.0
        gaps[starts[lengths == 1]] = np.inf
        distance[order] += gaps
    result[kept] = distance
    return result


def hypervolume(values: ArrayLike, reference: ArrayLike) -> float:
    """The volume between the points' front and the reference point; points beyond the reference add nothing.

    Args:
        values: Objective values, shape (individuals, objectives); +inf is allowed, without rows the volume is 0.
        reference: Reference point, shape (objectives,), finite.

    Raises:
        UsageError: A value is NaN, the shapes do not fit, or the volume is not finite.
    """
    corner = np.asarray(reference, dtype=float)
    rows = _table(values) if np.size(values) else np.empty((0, len(np.atleast_1d(corner))))
    if corner.ndim != 1 or corner.shape[0] != rows.shape[1] or not np.isfinite(corner).all():
        raise UsageError(
            f"the reference point needs {rows.shape[1]} finite coordinates, one for each objective; got {corner}."
        )
    inside = rows[(rows < corner).all(axis=1)]
    if len(inside) == 0:
        return 0.0
    # Distinct points of the front in sorted order: the same set of points gives the same bits in whatever order it
    # comes, and moocore 0.3.2 loses four digits of sixteen where many points of five objectives are equal.
    inside = np.unique(inside[ranks(inside) == 0], axis=0)
    volume = float(moocore.hypervolume(inside, ref=corner)) if np.isfinite(inside).all() else np.inf
    if not np.isfinite(volume):
        raise UsageError("the hypervolume of these points is not a finite number; one lies too far below the others.")
    return volume


def _table(values: ArrayLike) -> Floats:
    rows = np.asarray(values, dtype=float)
    if rows.ndim != 2 or rows.shape[1] == 0:
        raise UsageError(f"objective values have shape (individuals, objectives); got {rows.shape}.")
    if np.isnan(rows).any():
        raise UsageError("NaN is not better or worse than anything; leave failed evaluations out.")
    return rows


def _first_of_equals(rows: Floats, groups: NDArray[np.int64]) -> Booleans:
    """True for each row unless an earlier row of its group is equal to it; shape (rows,)."""
    order = np.lexsort((*rows.T, groups))  # stable: of equals, the earliest comes first
    same = (groups[order][1:] == groups[order][:-1]) & (rows[order][1:] == rows[order][:-1]).all(axis=1)
    result = np.ones(len(rows), dtype=bool)
    result[order[1:][same]] = False
    return result

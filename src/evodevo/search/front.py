"""Fronts, reference points and hypervolumes of outcomes, some of which may have failed."""

from __future__ import annotations

from collections.abc import Sequence

from evodevo.search import dominance
from evodevo.search.problem import Goal, Outcome

MARGIN = 0.1

Point = tuple[float, ...]


def feasible_points(outcomes: Sequence[Outcome | None], goals: tuple[Goal, ...]) -> list[tuple[int, Point]]:
    """(index, values to minimise) of each outcome that has values and violates no constraint.

    Outcomes of a training that stopped at a rung are left out: their values are not comparable with the others.
    """
    points = []
    for index, outcome in enumerate(outcomes):
        fit = outcome is not None and outcome.violation == 0 and outcome.share == 1
        values = outcome.values(goals) if fit and outcome is not None else None
        if values is not None:
            points.append((index, values))
    return points


def front_places(outcomes: Sequence[Outcome | None], goals: tuple[Goal, ...]) -> list[int]:
    """Indices of the non-dominated outcomes, ascending."""
    points = feasible_points(outcomes, goals)
    if not points:
        return []
    return [points[int(index)][0] for index in dominance.front([values for _, values in points])]


def reference_point(points: Sequence[Point]) -> Point:
    """The worst value of each goal plus a tenth of its range.

    Without the margin the extreme points of a front would have no volume.
    """
    corner = []
    for values in zip(*map(_bounded, points), strict=True):
        worst, best = max(values), min(values)
        corner.append(worst + MARGIN * ((worst - best) or abs(worst) or 1.0))
    return tuple(corner)


def hypervolume(outcomes: Sequence[Outcome | None], goals: tuple[Goal, ...], reference: Point) -> float:
    """The volume that the outcomes dominate together, bounded by the reference point."""
    points = [_bounded(values) for _, values in feasible_points(outcomes, goals)]
    return dominance.hypervolume(points, reference) if points else 0.0


def _bounded(point: Point) -> Point:
    """The point clipped so that a product of its coordinates, a volume, stays a finite float."""
    limit = 10.0 ** (300 // len(point))
    return tuple(min(max(value, -limit), limit) for value in point)

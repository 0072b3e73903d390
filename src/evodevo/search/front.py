"""Fronts and their hypervolume over individuals that may have failed."""

from __future__ import annotations

from collections.abc import Sequence

from evodevo.search import dominance
from evodevo.search.problem import Goal, Outcome

MARGIN = 0.1

Point = tuple[float, ...]


def feasible_points(outcomes: Sequence[Outcome | None], goals: tuple[Goal, ...]) -> list[tuple[int, Point]]:
    """(place, values to minimise) of everyone who has values and breaks no constraint."""
    found = []
    for place, outcome in enumerate(outcomes):
        values = None if outcome is None or outcome.violation > 0 else outcome.values(goals)
        if values is not None:
            found.append((place, values))
    return found


def front_places(outcomes: Sequence[Outcome | None], goals: tuple[Goal, ...]) -> list[int]:
    """Places of the non-dominated, ascending."""
    points = feasible_points(outcomes, goals)
    if not points:
        return []
    return [points[int(place)][0] for place in dominance.front([values for _, values in points])]


def reference_point(points: Sequence[Point]) -> Point:
    """The worst value of each goal and a tenth of its range more, so that the extremes of a front count too."""
    corner = []
    for values in zip(*map(_bounded, points), strict=True):
        worst, best = max(values), min(values)
        corner.append(worst + MARGIN * ((worst - best) or abs(worst) or 1.0))
    return tuple(corner)


def hypervolume(outcomes: Sequence[Outcome | None], goals: tuple[Goal, ...], reference: Point) -> float:
    """The volume that everyone together dominates, bounded by the reference point."""
    points = [_bounded(values) for _, values in feasible_points(outcomes, goals)]
    return dominance.hypervolume(points, reference) if points else 0.0


def _bounded(point: Point) -> Point:
    """A point whose volumes are floats too: values near the ends of the range of floats are brought nearer."""
    limit = 10.0 ** (300 // len(point))
    return tuple(min(max(value, -limit), limit) for value in point)

"""By how much a point with uncertain coordinates is expected to enlarge the hypervolume of a front.

What the front leaves undominated below the reference point is cut into boxes. A point y enlarges the volume within the
box [l, u] by Π (u_j - max(l_j, y_j))⁺; with independent coordinates the expectation is a product too, of
ψ_j(u_j) - ψ_j(l_j), where ψ(a) = E (a - Y)⁺ (Yang, Emmerich, Deutz, Bäck, "Multi-objective Bayesian global optimization
using expected hypervolume improvement gradient", 2019, for any number of objectives). With one objective this is the
expected improvement.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np

from evodevo.search import dominance
from evodevo.search.dominance import Floats

Shortfall = Callable[[Floats], Floats]
"""ψ of all candidates at these levels: shape (levels,) -> (candidates, levels); 0 at -inf."""

MAX_BOXES = 4000


def exact_shortfall(values: Floats) -> Shortfall:
    """ψ(a) = (a - v)⁺ of coordinates that are known, shape (candidates,)."""

    def shortfall(levels: Floats) -> Floats:
        return np.maximum(levels[None, :] - values[:, None], 0.0)

    return shortfall


def log_normal_shortfall(means: Floats, deviations: Floats, shift: float) -> Shortfall:
    """ψ of Y = exp(Z) - shift with normal Z: (a + shift) Φ(d) - E[exp(Z)] Φ(d - s), d = (log(a + shift) - m)/s."""

    from scipy.special import ndtr

    def shortfall(levels: Floats) -> Floats:
        moved = np.maximum(levels + shift, 0.0)[None, :]
        with np.errstate(divide="ignore"):
            d = (np.log(moved) - means[:, None]) / deviations[:, None]
        expected = np.exp(means + 0.5 * deviations**2)[:, None]
        return np.asarray(np.maximum(moved * ndtr(d) - expected * ndtr(d - deviations[:, None]), 0.0))

    return shortfall


def expected_gain(front: Floats, reference: Floats, shortfalls: Sequence[Shortfall]) -> Floats:
    """Expected growth of the hypervolume by each candidate.

    Args:
        front: Points, shape (points, objectives); those that do not dominate the reference point count for nothing.
        reference: Reference point, shape (objectives,).
        shortfalls: ψ of the candidates, one per objective.

    Returns:
        Gains, shape (candidates,), >= 0.
    """
    lower, upper = boxes(front, reference)
    product: Floats | None = None
    for column, shortfall in enumerate(shortfalls):
        levels, places = np.unique(np.r_[lower[:, column], upper[:, column]], return_inverse=True)
        values = shortfall(levels)
        width = values[:, places[len(lower) :]] - values[:, places[: len(lower)]]
        product = width if product is None else product * width
    assert product is not None
    return np.asarray(np.maximum(product, 0.0).sum(axis=1))


def boxes(front: Floats, reference: Floats) -> tuple[Floats, Floats]:
    """Disjoint boxes that fill what is below the reference point and not dominated by the front.

    Returns:
        Lower corners, which may be -inf, and upper corners, shape (boxes, objectives) each.
    """
    inside = front[(front < reference).all(axis=1)]
    if len(inside):
        inside = np.unique(inside[dominance.ranks(inside) == 0], axis=0)
        inside = _thinned(inside)
    found = _cut(inside, reference)
    lower = np.array([low for low, _ in found]).reshape(len(found), len(reference))
    upper = np.array([high for _, high in found]).reshape(len(found), len(reference))
    return lower, upper


def _thinned(points: Floats) -> Floats:
    """The least crowded points, so few that the number of boxes stays bounded."""
    objectives = points.shape[1]
    most = int(MAX_BOXES ** (1 / max(objectives - 1, 1)))
    if len(points) <= most:
        return points
    crowding = dominance.crowding(points, np.zeros(len(points)))
    return points[np.sort(np.argsort(-crowding, kind="stable")[:most])]


def _cut(points: Floats, reference: Floats) -> list[tuple[tuple[float, ...], tuple[float, ...]]]:
    """Slices along the last coordinate; within a slice, the points below it are a front of one coordinate less."""
    if len(reference) == 1:
        best = min((float(point[0]) for point in points), default=float(reference[0]))
        return [((-np.inf,), (min(best, float(reference[0])),))]
    levels = np.unique(points[:, -1]).tolist()
    edges = [-np.inf, *levels, float(reference[-1])]
    found = []
    for low, high in pairwise(edges):
        below = points[points[:, -1] <= low][:, :-1]
        if len(below):
            below = np.unique(below[dominance.ranks(below) == 0], axis=0)
        found += [((*a, low), (*b, high)) for a, b in _cut(below, reference[:-1])]
    return found

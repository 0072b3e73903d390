"""The course of a search: what it had found after so many evaluations, and after so many training tokens.

Evaluations count in order of birth, so that the course is the same whatever order parallel workers finish in. Those
that failed or stopped at a rung are evaluations, and their tokens count. One hypervolume scale serves all searches: its
reference point is that of all first generations together, and 1 is the box from there to the best value of each goal in
any of them.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace

from evodevo.runs.archive import Individual, Run
from evodevo.search import dominance
from evodevo.search.front import Point, feasible_points, reference_point
from evodevo.search.problem import Goal


@dataclass(frozen=True)
class Course:
    """One search.

    Attributes:
        tokens: training tokens spent after each evaluation, ascending.
        points: values to minimise of each evaluation; None where it failed or stopped at a rung.
        first: values of the first generation, those of individuals that stopped at a rung included.
    """

    tokens: tuple[int, ...]
    points: tuple[Point | None, ...]
    first: tuple[Point, ...]

    def within(self, tokens: int) -> int:
        """Number of evaluations that so many training tokens pay for."""
        return bisect_right(self.tokens, tokens)


@dataclass(frozen=True)
class CourseScale:
    """One measure of all searches of a comparison.

    Attributes:
        reference: reference point, values to minimise.
        best: best value of each goal in any search.
        goal: the goal where there is only one; its best value is then the measure.
    """

    reference: Point
    best: Point
    goal: Goal | None = None

    @classmethod
    def of(cls, firsts: Sequence[Point], points: Sequence[Point], goals: Sequence[Goal]) -> CourseScale | None:
        """The scale of these searches; None before any has a value.

        Args:
            firsts: points that decide the reference point.
            points: all points.
            goals: the goals.
        """
        if not firsts or not points:
            return None
        best = tuple(min(column) for column in zip(*points, strict=True))
        return cls(reference_point(firsts), best, goals[0] if len(goals) == 1 else None)

    @property
    def higher_is_better(self) -> bool:
        """Whether larger measures are better."""
        return self.goal is None or self.goal.direction == "maximise"

    def measure(self, points: Sequence[Point | None]) -> float | None:
        """The share of the box that these points dominate, 0 to 1; of one goal its best value, None without any."""
        known = [point for point in points if point is not None]
        if self.goal is not None:
            lowest = min((point[0] for point in known), default=None)
            return None if lowest is None else -lowest if self.goal.direction == "maximise" else lowest
        box = math.prod(corner - best for corner, best in zip(self.reference, self.best, strict=True))
        return dominance.hypervolume(known, self.reference) / box if known and box > 0 else 0.0

    def curve(self, course: Course, most: int) -> list[tuple[int, float]]:
        """(evaluations, measure) at every evaluation that changes it, and at the last of the first ``most``."""
        found: list[tuple[int, float]] = []
        front: list[Point] = []
        for count, point in enumerate(course.points[:most], 1):
            if point is not None:
                front = [*front, point]
                front = [front[int(place)] for place in dominance.front(front)]
                value = self.measure(front)
                if value is not None and (not found or found[-1][1] != value):
                    found.append((count, value))
        last = min(most, len(course.points))
        return [*found, (last, found[-1][1])] if found and found[-1][0] < last else found


def course_of(run: Run) -> Course:
    """The course of a search as far as all individuals before have ended."""
    spent, tokens, points, first = 0, [], [], []
    for one in run.individuals():
        if one.outcome is None:
            break
        spent += _tokens(one)
        tokens.append(spent)
        points.append(_point(one, run.goals))
        if one.generation == 0:
            first += [values for _, values in feasible_points([replace(one.outcome, share=1.0)], run.goals)]
    return Course(tuple(tokens), tuple(points), tuple(first))


def _tokens(one: Individual) -> int:
    fact = one.fact
    return 0 if "same_as" in fact else int(fact.get("tokens") or 0)


def _point(one: Individual, goals: tuple[Goal, ...]) -> Point | None:
    return next((values for _, values in feasible_points([one.outcome], goals)), None)

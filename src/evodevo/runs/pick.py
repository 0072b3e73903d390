"""Choosing one individual of a front, with the reason and the comparison with the baselines."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, Protocol, TypeVar

from evodevo.errors import NotFoundError, UsageError, unknown_name
from evodevo.search.problem import Goal

_CONDITION = re.compile(r"([a-z_]{1,40})\s*(<=|>=|<|>)\s*([0-9]{1,15}(?:\.[0-9]{1,9})?)\s*([kKMG]?)")
_FACTORS = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9}


@dataclass(frozen=True)
class Summary:
    """One goal of one individual over seeds.

    Attributes:
        mean: over the fresh seeds if there are any, else the search's own value.
        low, high: over the same values.
        seeds: number of values.
        fresh: whether seeds are meant that played no part in the search.
    """

    mean: float
    low: float
    high: float
    seeds: int
    fresh: bool


class Candidate(Protocol):
    """The part of an individual that a choice reads: its name, its scores over seeds, its facts."""

    @property
    def name(self) -> str: ...
    @property
    def fact(self) -> dict[str, Any]: ...
    @property
    def scores(self) -> dict[str, float | None]: ...
    def key(self, goal: Goal) -> float: ...
    def summary(self, goal: str) -> Summary | None: ...
    def own(self, goal: str) -> Summary | None: ...


C = TypeVar("C", bound=Candidate)
C_co = TypeVar("C_co", bound=Candidate, covariant=True)


class Search(Protocol[C_co]):
    """The part of a run that a choice reads: its goals, its front, its baselines."""

    id: str

    @property
    def goals(self) -> tuple[Goal, ...]: ...
    @property
    def exact_goals(self) -> Collection[str]: ...
    def front(self) -> Sequence[C_co]: ...
    def baselines(self) -> Sequence[C_co]: ...


@dataclass(frozen=True)
class GoalComparison:
    """One goal of the chosen one beside a baseline.

    Attributes:
        goal: name of the goal.
        ours, theirs: summaries over the same kind of seeds.
        better: whether ours is better on average.
        spread: known of the spread over seeds: ``none`` where the genome alone decides the value, ``known`` with
            several seeds on both sides, else ``unknown``.
        clear: whether the values differ beyond the spread: always where there is none, else only where it is known and
            the ranges over seeds do not touch.
    """

    goal: str
    ours: Summary
    theirs: Summary
    better: bool
    spread: Literal["none", "known", "unknown"]
    clear: bool


@dataclass(frozen=True)
class BaselineComparison:
    """The chosen one beside one baseline."""

    baseline: str
    verdicts: tuple[GoalComparison, ...]

    @property
    def ahead(self) -> bool:
        """Better in at least one goal and worse in none, on average, on validation: less than ``runs.verdict`` calls
        dominating."""
        worse = [v for v in self.verdicts if not v.better and v.ours.mean != v.theirs.mean]
        return not worse and any(v.better for v in self.verdicts)

    @property
    def clear(self) -> bool:
        """It is ahead, and each goal that is better is so beyond the spread."""
        return self.ahead and all(verdict.clear for verdict in self.verdicts if verdict.better)


@dataclass(frozen=True)
class Pick(Generic[C]):
    """The chosen individual.

    Attributes:
        individual: individual of the front.
        reason: reason of the choice, in words.
        comparisons: comparisons with every baseline of the run.
    """

    individual: C
    reason: str
    comparisons: tuple[BaselineComparison, ...]


def pick(run: Search[C], rule: str = "knee", where: Sequence[str] = ()) -> Pick[C]:
    """Choose from a run's front.

    Args:
        run: run with at least one scored individual.
        rule: ``knee``, or ``best:GOAL``.
        where: conditions such as ``cache<700K`` that the chosen one must keep.

    Raises:
        UsageError: an unknown rule, goal or condition.
        NotFoundError: no individual of the front fulfils the conditions.
    """
    front = run.front()
    if not front:
        raise NotFoundError(f"run {run.id} has no scored individual to pick. See: evodevo status {run.id}")
    kept = [candidate for candidate in front if all(_keeps(candidate, condition, run.goals) for condition in where)]
    if not kept:
        raise NotFoundError(
            f"nobody of the {len(front)} on the front keeps {' and '.join(where)}. See: evodevo front {run.id}"
        )
    among = f"{len(kept)} on the front" + (f" with {' and '.join(where)}" if where else "")
    summaries = [candidate.summary(goal.name) for candidate in kept for goal in run.goals]
    if any(summary is not None and summary.fresh for summary in summaries):
        among += " by the search's own scores"  # those of fresh seeds are shown, and choose nothing
    if rule == "knee":
        chosen = knee(kept, run.goals)
        reason = f"the knee among {among}: farthest from the line between the extremes, goals scaled to [0, 1]"
    elif rule.startswith("best:"):
        goal = _goal(rule.removeprefix("best:"), run.goals)
        chosen = min(kept, key=lambda candidate: candidate.key(goal))
        reason = f"best {goal.name} among {among}"
    else:
        names = ", ".join(goal.name for goal in run.goals)
        raise UsageError(f"rule {rule[:40]!r}: it must be knee, or best:GOAL with one of {names}.")
    return Pick(chosen, reason, compare(chosen, run))


def knee(front: Sequence[C], goals: Sequence[Goal]) -> C:
    """The one farthest below the plane through the extremes: smallest sum of goals scaled to [0, 1] over the front."""
    ranges = []
    for goal in goals:
        values = [candidate.key(goal) for candidate in front]
        ranges.append((min(values), max(values)))

    def total(candidate: Candidate) -> float:
        shares = [
            (candidate.key(goal) - low) / (high - low)
            for goal, (low, high) in zip(goals, ranges, strict=True)
            if high > low
        ]
        return sum(shares)

    return min(front, key=total)


def compare(individual: Candidate, run: Search[Candidate]) -> tuple[BaselineComparison, ...]:
    """The individual beside every baseline that has scores; over fresh seeds where both have some."""
    comparisons = []
    for baseline in run.baselines():
        verdicts = []
        for goal in run.goals:
            ours, theirs = individual.summary(goal.name), baseline.summary(goal.name)
            if ours is None or theirs is None:
                continue
            if ours.fresh != theirs.fresh:
                ours, theirs = individual.own(goal.name) or ours, baseline.own(goal.name) or theirs
            verdicts.append(_verdict(goal, ours, theirs, exact=goal.name in run.exact_goals))
        if len(verdicts) == len(run.goals):
            comparisons.append(BaselineComparison(baseline.name, tuple(verdicts)))
    return tuple(comparisons)


def _verdict(goal: Goal, ours: Summary, theirs: Summary, *, exact: bool) -> GoalComparison:
    sign = 1.0 if goal.direction == "minimise" else -1.0
    better = sign * ours.mean < sign * theirs.mean
    apart = ours.high < theirs.low or ours.low > theirs.high
    known: Literal["known", "unknown"] = "known" if min(ours.seeds, theirs.seeds) > 1 else "unknown"
    return GoalComparison(
        goal.name, ours, theirs, better, "none" if exact else known, apart and (exact or known == "known")
    )


def certainty(verdicts: Sequence[GoalComparison]) -> str:
    """How sure the goals are in which one is better than a baseline: ``quality: one seed, its spread is unknown``.

    Empty where all differ beyond the spread over seeds, or have none.
    """
    words = {"known": "within the spread over seeds", "unknown": "one seed, its spread is unknown"}
    unclear = [verdict for verdict in verdicts if verdict.better and not verdict.clear]
    groups = {kind: [verdict.goal for verdict in unclear if verdict.spread == kind] for kind in words}
    return "; ".join(f"{', '.join(goals)}: {words[kind]}" for kind, goals in groups.items() if goals)


def _keeps(individual: Candidate, condition: str, goals: Sequence[Goal]) -> bool:
    match = _CONDITION.fullmatch(condition.strip())
    if match is None:
        raise UsageError(f"condition {condition[:60]!r}: it must look like cache<700K or quality<=2.5.")
    name, sign, digits, unit = match.groups()
    known = {**{k: v for k, v in individual.fact.items() if isinstance(v, int | float)}, **individual.scores}
    if name not in known:
        raise unknown_name("goal", name, [goal.name for goal in goals] + sorted(known))
    value, limit = known[name], float(digits) * _FACTORS[unit]
    if value is None:
        return False
    return {"<": value < limit, "<=": value <= limit, ">": value > limit, ">=": value >= limit}[sign]


def _goal(name: str, goals: Sequence[Goal]) -> Goal:
    for goal in goals:
        if goal.name == name:
            return goal
    raise unknown_name("goal", name, [goal.name for goal in goals])

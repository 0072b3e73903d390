"""Cost of the training of a search: tokens by rung, stopped individuals, correlation of a rung with the end."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from statistics import fmean
from typing import Any

import numpy as np

from evodevo.runs.archive import Individual, Run
from evodevo.search.problem import Goal, Outcome
from evodevo.search.record import is_final, to_outcome
from evodevo.search.rungs import spent_tokens
from evodevo.storage import EvaluationRow


@dataclass(frozen=True)
class RungAccount:
    """One rung of a search, the whole budget included.

    Attributes:
        share: Share of the budget.
        reached: Number of individuals that were trained to it.
        failed: Number of those whose training failed there.
        stopped: Number of those that stopped there without a failure.
        tokens: Training tokens that were spent on the way from the rung below.
        compared: Number of individuals with scores at this rung and at the whole budget.
        correlation: Goal -> Spearman's rank correlation of its values here with those at the whole budget, over these
            individuals; None where fewer than three or equal values leave none.
    """

    share: float
    reached: int
    failed: int
    stopped: int
    tokens: int
    compared: int
    correlation: dict[str, float | None]


@dataclass(frozen=True)
class TrainingAccount:
    """The training of a run. What an interruption made a worker train twice is not in it.

    Attributes:
        rungs: Rungs of the search, the whole budget last.
        baselines: Training tokens of the baselines.
        confirmations: Training tokens of the evaluations with fresh seeds.
        inherited: Share of the weights that each individual with donors began with, in order of birth.
    """

    rungs: tuple[RungAccount, ...]
    baselines: int
    confirmations: int
    inherited: tuple[float, ...]

    @property
    def plain(self) -> bool:
        """Whether all individuals were trained from scratch for the whole budget."""
        return not self.inherited and all(rung.share == 1 for rung in self.rungs)

    @property
    def search(self) -> int:
        """Training tokens of the search itself."""
        return sum(rung.tokens for rung in self.rungs)

    @property
    def tokens(self) -> int:
        """All training tokens of the run."""
        return self.search + self.baselines + self.confirmations

    def words(self) -> list[str]:
        """The account in sentences; none where no tokens are counted."""
        if not self.tokens:
            return []
        parts = [(self.search, "search"), (self.baselines, "baselines"), (self.confirmations, "confirmations")]
        lines = [f"{self.tokens:,} training tokens: " + ", ".join(f"{n:,} {name}" for n, name in parts if n)]
        for rung in self.rungs if len(self.rungs) > 1 else ():
            line = f"to {rung.share:.0%}: {rung.reached} trained, {rung.stopped} stopped, {rung.tokens:,} tokens"
            known = [f"{name} {value:.2f}" for name, value in rung.correlation.items() if value is not None]
            if known and rung.share < 1:
                line += f"; rank correlation with the end ({rung.compared} individuals): {', '.join(known)}"
            lines.append(line)
        if self.inherited:
            lines.append(
                f"{len(self.inherited)} individuals began with inherited weights: "
                f"{fmean(self.inherited):.0%} of theirs on average, {min(self.inherited):.0%} at least"
            )
        return lines

    def to_json(self) -> dict[str, Any]:
        """All of it as JSON."""
        return {**asdict(self), "search": self.search, "tokens": self.tokens}


def training_account(run: Run) -> TrainingAccount:
    """The account of a run, as far as it has come."""
    own = run.evaluation_seed(0)
    individuals, baselines = run.individuals(), run.baselines()
    courses = [_course(individual, own) for individual in individuals]
    spent = spent_tokens(courses)
    rungs = tuple(
        _rung(share, courses, spent.get(share, 0), run.goals)
        for share in sorted({share for course in courses for share in course})
    )
    every = [*individuals, *baselines]
    fresh = [_course(one, row.seed) for one in every for row in one.evaluations if row.seed != own and is_final(row)]
    facts = (individual.fact.get("inherited") for individual in individuals)
    return TrainingAccount(
        rungs,
        sum(spent_tokens(_course(baseline, own) for baseline in baselines).values()),
        sum(spent_tokens(fresh).values()),
        tuple(float(fact["share"]) for fact in facts if fact is not None),
    )


def _course(individual: Individual, seed: int) -> dict[float, Outcome]:
    """Share of the budget -> outcome there, of the evaluations with one seed."""
    rows: list[EvaluationRow] = [row for row in individual.evaluations if row.seed == seed and is_final(row)]
    return {outcome.share: outcome for outcome in map(to_outcome, rows)}


def _rung(share: float, courses: list[dict[float, Outcome]], tokens: int, goals: tuple[Goal, ...]) -> RungAccount:
    here = [course for course in courses if share in course]
    pairs = []
    for course in here:
        early, late = course[share].values(goals), course[1.0].values(goals) if 1.0 in course else None
        if early is not None and late is not None:
            pairs.append((early, late))
    failed = sum(course[share].reason is not None for course in here)
    ended = sum(max(course) == share for course in here)
    correlation = {
        goal.name: rank_correlation([early[n] for early, _ in pairs], [late[n] for _, late in pairs])
        for n, goal in enumerate(goals)
    }
    stopped = 0 if share == 1 else ended - failed
    return RungAccount(share, len(here), failed, stopped, tokens, len(pairs), correlation)


def rank_correlation(a: Sequence[float], b: Sequence[float]) -> float | None:
    """Spearman's rank correlation; None where there are fewer than three pairs, or all values of a side are equal."""
    if len(a) < 3 or any(all(x == y for x, y in pairwise(side)) for side in (a, b)):
        return None
    from scipy.stats import spearmanr

    value = float(spearmanr(np.asarray(a), np.asarray(b)).statistic)
    return value if math.isfinite(value) else None

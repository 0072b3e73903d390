"""Worth of the operations of variation: ranks by which children are better than their parents, or worse.

Legend: I individuals, G goals.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean, stdev
from typing import Any

import numpy as np

from evodevo.runs.archive import Individual, Run
from evodevo.search.dominance import constrained_ranks

DEFINITION = (
    "Rank change of a child: the mean non-dominated rank of its parents minus its own rank (0 is the front), among all "
    "individuals of its generation and of those before it, by the search's own scores; above 0 it is better than its "
    "parents. One that failed stands behind the last rank. Children of the same parents are not independent, and "
    "children of parents that were selected tend to fall back: compare rows with each other, not with 0."
)


@dataclass(frozen=True)
class Worth:
    """The effect of one operation, or of one kind of birth, in a run.

    Attributes:
        name: Name of the operation.
        children: Number of children that it made, alone or with others.
        share: ``children`` as a share of all children in the table, 0 to 1.
        change: Mean rank change in ranks; None where no child has one.
        error: Standard error of ``change``; None for fewer than two children.
        better: Share of the children with a rank change above 0; None where no child has one.
        failed: Number of children whose evaluation failed.
    """

    name: str
    children: int
    share: float
    change: float | None
    error: float | None
    better: float | None
    failed: int


@dataclass(frozen=True)
class VariationRecord:
    """How the children of a run were made.

    Attributes:
        births: One row per kind of birth ("crossover+mutation", ...), of all children.
        operations: One row per operation of mutations, of the children whose mutation was recorded.
        recorded: Number of children whose mutation was recorded; 0 in runs of older versions and of other spaces.
        changed: Share of the recorded mutations that changed the network, 0 to 1; None without any.
        redrawn: Share of the recorded mutations that were drawn more than once; None without any.
        draws: Mean number of draws of a recorded mutation; None without any.
    """

    births: tuple[Worth, ...]
    operations: tuple[Worth, ...]
    recorded: int
    changed: float | None
    redrawn: float | None
    draws: float | None

    def to_json(self) -> dict[str, Any]:
        """The fields by name, JSON-able, with the definition of the rank change."""
        return {**asdict(self), "definition": DEFINITION}


def variation_record(run: Run) -> VariationRecord:
    """How the children of a search were made, and what that was worth."""
    members = run.individuals()
    children = [one for one in members if one.parents]
    changes = rank_changes(run, members)
    mutations = [one for one in children if "operations" in one.row.details]
    draws = [one.row.detail("draws", int) for one in mutations]
    made = [one for one in mutations if one.row.operations]
    count = len(mutations)
    return VariationRecord(
        births=_table(((one, [one.operation]) for one in children), len(children), changes),
        operations=_table(((one, one.row.operations) for one in mutations), count, changes),
        recorded=count,
        changed=len(made) / count if count else None,
        redrawn=sum(number > 1 for number in draws) / count if count else None,
        draws=fmean(draws) if count else None,
    )


def rank_changes(run: Run, members: Sequence[Individual]) -> dict[str, float]:
    """Rank change of each evaluated child that has a parent among the members; see ``DEFINITION``."""
    found = {}
    judged = [one for one in members if one.outcome is not None]
    for generation in sorted({one.generation for one in judged if one.parents}):
        pool = [one for one in judged if one.generation <= generation]
        ranks = _ranks(run, pool)
        for one in pool:
            parents = [ranks[parent] for parent in one.parents if parent in ranks]
            if one.generation == generation and parents:
                found[one.id] = fmean(parents) - ranks[one.id]
    return found


def _ranks(run: Run, pool: Sequence[Individual]) -> dict[str, int]:
    """Non-dominated rank of each; those without values share the one behind the last."""
    values, violations, scored, others = [], [], [], []
    for one in pool:
        outcome = one.outcome
        assert outcome is not None
        numbers = (0.0,) * len(run.goals) if outcome.violation > 0 else outcome.values(run.goals)
        if numbers is None:
            others.append(one.id)
        else:
            scored.append(one.id)
            values.append(numbers)
            violations.append(outcome.violation)
    ranks = {}
    if scored:
        found = constrained_ranks(np.array(values, dtype=float), np.array(violations, dtype=float))  # (I, G), (I,)
        ranks = dict(zip(scored, found.tolist(), strict=True))
    behind = max(ranks.values(), default=-1) + 1
    return ranks | dict.fromkeys(others, behind)


def _table(
    made: Iterable[tuple[Individual, Sequence[str]]], count: int, changes: Mapping[str, float]
) -> tuple[Worth, ...]:
    groups: dict[str, list[Individual]] = {}
    for one, names in made:
        for name in dict.fromkeys(names):
            groups.setdefault(str(name), []).append(one)
    rows = []
    for name, group in groups.items():
        known = [changes[one.id] for one in group if one.id in changes]
        rows.append(
            Worth(
                name=name,
                children=len(group),
                share=len(group) / count,
                change=fmean(known) if known else None,
                error=stdev(known) / math.sqrt(len(known)) if len(known) > 1 else None,
                better=sum(change > 0 for change in known) / len(known) if known else None,
                failed=sum(bool(one.reason) for one in group),
            )
        )
    return tuple(sorted(rows, key=lambda row: (-row.children, row.name)))

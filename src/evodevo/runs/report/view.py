"""The level of detail of a page on a run, and texts that every section needs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from evodevo.report.charts.numbers import says_its_unit, show
from evodevo.report.html import Content, cut, element
from evodevo.report.svg import finite
from evodevo.runs.report.data import EvolutionReport, ReportedIndividual, ReportedObjective

LISTED = 60
"""Baselines, notes, objectives, facts: more than this many are cut."""
_SYMBOLS = ("bytes", "flops", "seconds")  # units that stand beside the number as a symbol
_ID = 8  # letters of an id that the page shows


@dataclass(frozen=True)
class Detail:
    """Limits of the numbers of shown things; lowered step by step until the file fits."""

    curves: int
    curve_points: int
    genomes: int
    livs: int
    strips: int
    lineage: int
    rows: int
    text: int


def short(individual: str) -> str:
    """The part of an id that the page shows."""
    return cut(individual)[:_ID]


class ReportView:
    """The data at one level of detail; ``reduced`` is true where a higher level did not fit."""

    def __init__(self, data: EvolutionReport, detail: Detail, reduced: bool) -> None:
        self.data, self.detail, self.reduced = data, detail, reduced
        self.objectives = list(data.objectives)[:LISTED]
        self.baselines = list(data.baselines)[:LISTED]
        self.individuals = list(data.individuals)
        self.front = sorted((i for i in self.individuals if i.state == "front"), key=self.order)
        self.failed = [i for i in self.individuals if i.state == "failed"]

    def order(self, individual: ReportedIndividual) -> tuple[float, str]:
        """Best first in the first objective; without a score last."""
        if not self.objectives:
            return (0.0, individual.id)
        first = self.objectives[0]
        value = finite(individual.scores.get(first.name))
        return (math.inf if value is None else value if first.minimise else -value, individual.id)

    def heading(self, objective: ReportedObjective) -> str:
        """The objective with its unit, and an arrow towards better values."""
        unit = f" ({cut(objective.unit, 40)})" if objective.unit and not says_its_unit(objective.unit) else ""
        return f"{cut(objective.name, 60)}{unit} {'↓' if objective.minimise else '↑'}"

    def score_row(
        self,
        name: str,
        scores: Mapping[str, float | None],
        spreads: Mapping[str, tuple[float, float]],
        origin: str,
    ) -> list[Content]:
        """One row of a table of models: name, every objective, origin."""
        return [element("code", cut(name, 40)), *(self.score(o, scores, spreads) for o in self.objectives), origin]

    def score(
        self,
        objective: ReportedObjective,
        scores: Mapping[str, float | None],
        spreads: Mapping[str, tuple[float, float]],
    ) -> str:
        """The value, with the lowest and highest seed where there are several."""
        value = show(scores.get(objective.name), objective.unit, padded=True)
        spread = spreads.get(objective.name)
        if not spread:
            return value
        low, high = (show(end, objective.unit, padded=True) for end in spread)
        return f"{value} ({low} to {high})"

    def birth(self, individual: ReportedIndividual) -> str:
        """Origin of the individual: ``crossover of 1f3a… and 77b0…, generation 4``."""
        parents = " and ".join(short(parent) for parent in individual.parents[:4])
        return (
            f"{cut(individual.operation, 60)}{' of ' + parents if parents else ''}, generation {individual.generation}"
        )

    @staticmethod
    def listed(shown: int, of: int) -> str:
        """Note where a list is cut; empty where it is whole."""
        return "" if shown == of else f" (first {shown:,} of {of:,})"

    def caption(self, scores: Mapping[str, float | None]) -> str:
        """The first three scores in a few words, each marked by its unit or name."""
        parts = []
        for objective in self.objectives[:3]:
            value = show(scores.get(objective.name), objective.unit)
            word = cut(objective.unit, 30) or cut(objective.name, 30)
            parts.append(value if objective.unit in _SYMBOLS else f"{value} {word}")
        return ", ".join(parts)

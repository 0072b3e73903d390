"""The level of detail of a page on a run, texts that every section needs, and the sections that a slice adds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal
from xml.etree.ElementTree import Element

from evodevo.report.charts.axes import Axis
from evodevo.report.charts.numbers import says_its_unit, show
from evodevo.report.html import Content, cut, element
from evodevo.report.svg import finite
from evodevo.runs.archive import Individual, Run
from evodevo.search.problem import Goal

LISTED = 60
"""Baselines, notes, goals, facts: more than this many are cut."""
SPIKE = 1.3
"""A training is unstable where its loss rises to more than this multiple of the lowest before."""
_SYMBOLS = ("bytes", "flops", "seconds")  # units that are shown as a symbol after the number
_ID = 8  # letters of an id that the page shows

Course = Literal["stable", "unstable", "diverged", "failed"]
State = Literal["front", "dominated", "failed"]


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


def axis(goal: Goal) -> Axis:
    """The axis of a goal in a chart."""
    return Axis(goal.name, goal.unit, minimise=goal.direction == "minimise")


class ReportView:
    """A run at one level of detail; it is read once for all sections.

    Args:
        run: Run whose page is made.
        parts: Sections of the run's slice.
        detail: Limits of the numbers of shown things; a page that became too long is made again with lower ones.

    Attributes:
        whole: Individuals of the search without those that stopped at a rung.
        reduced: Whether a higher level of detail did not fit.
        picks: Rule -> id of the individual that it picks.
    """

    def __init__(self, run: Run, parts: GenomeParts, detail: Detail) -> None:
        self.run, self.parts, self.detail, self.reduced = run, parts, detail, False
        self.generations = run.generations()
        self.goals = list(run.goals)[:LISTED]
        self.baselines = run.baselines()[:LISTED]
        self.individuals = run.individuals()
        self.whole = [one for one in self.individuals if not one.stopped]
        self.failed = [one for one in self.individuals if one.outcome is None or one.outcome.reason is not None]
        self._scores: dict[str, dict[str, float | None]] = {}
        self._curves: dict[str, Sequence[tuple[float, float]]] = {}
        self._drawings: dict[str, Any] = {}
        self.front = sorted(run.front(), key=self.order)
        self.picks = {"knee": run.pick().individual.id} if self.front else {}
        self._states: dict[str, State] = {
            **{one.id: "front" for one in self.front},
            **{one.id: "failed" for one in self.failed},
        }

    def state(self, individual: Individual) -> State:
        """Whether the individual failed, is on the front, or is dominated."""
        return self._states.get(individual.id, "dominated")

    def reason(self, individual: Individual) -> str:
        """Reason of a failure; empty where there is none."""
        return individual.reason or ("" if individual.outcome is not None else "not finished")

    def scores(self, individual: Individual) -> Mapping[str, float | None]:
        """Goal -> mean over the seeds that count; None where there is no number."""
        if individual.id not in self._scores:
            summaries = {goal.name: individual.summary(goal.name) for goal in self.run.goals}
            self._scores[individual.id] = {name: None if s is None else s.mean for name, s in summaries.items()}
        return self._scores[individual.id]

    def spread(self, individual: Individual, goal: Goal) -> tuple[float, float] | None:
        """Lowest and highest value over seeds; None where there are not several."""
        summary = individual.summary(goal.name)
        return None if summary is None or summary.seeds == 1 else (summary.low, summary.high)

    def curve(self, individual: Individual) -> Sequence[tuple[float, float]]:
        """(tokens, training loss in nats) of the search's own evaluation."""
        if individual.id not in self._curves:
            self._curves[individual.id] = individual.curve()
        return self._curves[individual.id]

    def drawing(self, individual: Individual) -> Any:
        """The drawing of the genome by the slice; None where it draws nothing."""
        if individual.id not in self._drawings:
            self._drawings[individual.id] = self.parts.drawn(individual)
        return self._drawings[individual.id]

    def order(self, individual: Individual) -> tuple[float, str]:
        """Best first in the first goal; without a score last."""
        if not self.goals:
            return (0.0, individual.id)
        value = finite(self.scores(individual).get(self.goals[0].name))
        return (math.inf if value is None else self.goals[0].to_minimise(value), individual.id)

    def heading(self, goal: Goal) -> str:
        """The goal with its unit, and an arrow towards better values."""
        unit = f" ({cut(goal.unit, 40)})" if goal.unit and not says_its_unit(goal.unit) else ""
        return f"{cut(goal.name, 60)}{unit} {'↓' if goal.direction == 'minimise' else '↑'}"

    def score_row(self, name: str, individual: Individual, origin: str) -> list[Content]:
        """One row of a table of models: name, every goal, origin."""
        return [element("code", cut(name, 40)), *(self.score(individual, goal) for goal in self.goals), origin]

    def score(self, individual: Individual, goal: Goal) -> str:
        """The value, with the lowest and highest seed where there are several."""
        value = show(self.scores(individual).get(goal.name), goal.unit, padded=True)
        spread = self.spread(individual, goal)
        if spread is None:
            return value
        low, high = (show(end, goal.unit, padded=True) for end in spread)
        return f"{value} ({low} to {high})"

    def birth(self, individual: Individual) -> str:
        """How the individual came to be: ``crossover of 1f3a… and 77b0…, generation 4``."""
        parents = " and ".join(short(parent) for parent in individual.parents[:4])
        return (
            f"{cut(individual.operation, 60)}{' of ' + parents if parents else ''}, generation {individual.generation}"
        )

    @staticmethod
    def listed(shown: int, of: int) -> str:
        """Note where a list is cut; empty where it is whole."""
        return "" if shown == of else f" (first {shown:,} of {of:,})"

    def caption(self, individual: Individual) -> str:
        """The first three scores in a few words, each with its unit or name."""
        parts = []
        for goal in self.goals[:3]:
            value = show(self.scores(individual).get(goal.name), goal.unit)
            word = cut(goal.unit, 30) or cut(goal.name, 30)
            parts.append(value if goal.unit in _SYMBOLS else f"{value} {word}")
        return ", ".join(parts)

    def stability(self, individual: Individual) -> Course:
        """Course of the training of an individual; see the function of that name."""
        return stability(self.curve(individual), individual.reason)


def stability(curve: Sequence[tuple[float, float]], reason: str) -> Course:
    """Stable: after its first tenth the loss never rises 30 % over the lowest before (the share of Fig. 4.2)."""
    if reason in ("diverged", "nan"):
        return "diverged"
    if reason:
        return "failed"
    lowest = float("inf")
    for place, (_, loss) in enumerate(curve):
        if place * 10 > len(curve) and loss > SPIKE * lowest:
            return "unstable"
        lowest = min(lowest, loss)
    return "stable"


class GenomeParts:
    """A page on genomes that are not drawn; slices that draw theirs derive from it."""

    def drawn(self, individual: Individual) -> Any:
        """Data of an individual for the sections below; None where they draw nothing."""
        return None

    def text(self, individual: Individual) -> str:
        """The genome as written, for the list of individuals; empty where it is not shown."""
        return ""

    def remark(self, individual: Individual) -> str:
        """Why an individual need not beat the reference; empty where it must."""
        return ""

    def genomes(self, view: ReportView) -> Element | None:
        """The section with the front's genomes and the baselines."""
        return None

    def progress(self, view: ReportView) -> list[Element]:
        """Figures on how genomes changed from generation to generation."""
        return []

    def motifs(self, view: ReportView) -> Element | None:
        """The section on patterns that recur in the genomes."""
        return None

    def population(self, view: ReportView) -> Element | None:
        """The section with all genomes in short."""
        return None

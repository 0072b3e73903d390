"""The data of a report of an evolution: plain data, without stores, spaces or networks.

Any number may be None or not finite, any list may be empty; all texts are shown as they are, never as markup.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from evodevo.report.charts.axes import Axis
from evodevo.report.charts.curves import Series

Point = tuple[float, float | None]


@dataclass(frozen=True)
class RunFacts:
    """The facts of a run: content, place and time; all texts are shown as they are.

    Args:
        id: the run.
        state: for example ``finished`` or ``interrupted``.
        command: the command line that repeats the run.
        duration: wall time in words.
        versions: package → version.
        settings: the resolved settings, JSON-able.
        more: further rows of the table of facts, name → text.
    """

    id: str
    recipe: str = ""
    command: str = ""
    state: str = ""
    seed: int | str = ""
    started: str = ""
    finished: str = ""
    duration: str = ""
    hardware: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    more: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ReportedObjective:
    """A named number; ``unit`` as for ``report.charts.axes.Axis`` (``bytes``, ``parameters``, ``bits per byte``, …)."""

    name: str
    unit: str = ""
    minimise: bool = True
    logarithmic: bool | None = None

    def axis(self) -> Axis:
        return Axis(self.name, self.unit, self.logarithmic, self.minimise)


@dataclass(frozen=True)
class ReportedIndividual:
    """One individual of the run.

    Args:
        scores: objective name → value; a missing name, None or nan is no score.
        spreads: objective name → (lowest, highest) over seeds, where there are several.
        operation: operation that made it (``initial``, ``crossover``, ``mutation``, ``crossover+mutation``, …).
        reason: for a failed one: ``timeout``, ``memory``, ``diverged``, …; ``detail`` is the end of the error text.
        genome: data from which the parts of the page draw it; None where they draw nothing.
        text: its genome as written, where that is shown.
        curve: (tokens or steps, training loss).
    """

    id: str
    generation: int
    state: Literal["front", "dominated", "failed"]
    scores: Mapping[str, float | None] = field(default_factory=dict)
    spreads: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    operation: str = "initial"
    parents: Sequence[str] = ()
    reason: str = ""
    detail: str = ""
    seconds: float | None = None
    genome: Any = None
    curve: Sequence[Point] = ()
    curve_state: Literal["stable", "unstable", "diverged", "failed"] = "stable"
    text: str = ""


@dataclass(frozen=True)
class ReportedBaseline:
    """A hand-drawn model trained under the same budget; spreads are (lowest, highest) over ``seeds`` seeds."""

    name: str
    scores: Mapping[str, float | None] = field(default_factory=dict)
    spreads: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    seeds: int = 1
    genome: Any = None


@dataclass(frozen=True)
class ReferenceResult:
    """The score of one model that is compared with the reference; ``note`` excuses a model that was not expected to
    beat it.
    """

    name: str
    value: float | None
    note: str = ""


@dataclass(frozen=True)
class Reference:
    """A simple model that a trained one must beat, for example the byte bigram; lower values are better."""

    name: str
    value: float | None
    unit: str = "bits per byte"
    results: Sequence[ReferenceResult] = ()
    note: str = ""


@dataclass(frozen=True)
class EvolutionReport:
    """Everything on the page.

    Args:
        hypervolume: (generation, value); ``hypervolume_others`` for example random search at equal evaluations.
        reference_point: objective name → the value that the hypervolume is measured from.
        populations: generation → ids of the population after selection, for the averages of Fig. 5.4; without it
            the individuals born in each generation are averaged.
        picks: rule → id, for example ``{"knee": "a3f2…"}``; the first one's ancestors are marked in the lineage.
        curve_x, curve_y: the axes of the training curves.
        notes: remarks at the top, one paragraph each.
    """

    run: RunFacts
    objectives: Sequence[ReportedObjective]
    individuals: Sequence[ReportedIndividual] = ()
    baselines: Sequence[ReportedBaseline] = ()
    reference: Reference | None = None
    hypervolume: Sequence[Point] = ()
    hypervolume_others: Sequence[Series] = ()
    reference_point: Mapping[str, float] = field(default_factory=dict)
    populations: Mapping[int, Sequence[str]] = field(default_factory=dict)
    picks: Mapping[str, str] = field(default_factory=dict)
    curve_x: Axis = field(default_factory=lambda: Axis("tokens", "tokens"))
    curve_y: Axis = field(default_factory=lambda: Axis("training loss", "nats per token"))
    notes: Sequence[str] = ()

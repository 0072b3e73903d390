"""What a report of an experiment is made from: plain data, without stores, spaces or networks.

Any text is shown as it is, never as markup; a number that is not there is an empty text or a missing key.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from evodevo.backbone.report.evolution_data import RunFacts
from evodevo.report.charts.curves import Series

if TYPE_CHECKING:
    from evodevo.growth.report.page_data import GrowthPart


@dataclass(frozen=True)
class Words:
    """A table of texts: the first column names the rows.

    Args:
        texts: columns beside the first that hold words; the others hold numbers, which are set flush right.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""
    texts: Sequence[str] = ()


@dataclass(frozen=True)
class Chart:
    """Named lines over one axis.

    Args:
        name: what is drawn upwards.
        over: what is drawn to the right, and its unit.
        better: which values are better.
    """

    name: str
    unit: str
    over: str
    over_unit: str
    series: Sequence[Series]
    better: Literal["lower", "higher"] = "lower"
    caption: str = ""


@dataclass(frozen=True)
class PrintedTable:
    """What a paper prints, and why it may not be comparable."""

    source: str
    table: Words
    caveats: Sequence[str] = ()


@dataclass(frozen=True)
class Picture:
    """One drawing, as SVG.

    Args:
        caption: below it.
        folded: its summary where a reader opens it when wanted; always open where empty.
    """

    svg: str
    caption: str = ""
    folded: str = ""


@dataclass(frozen=True)
class Training:
    """One individual, for the list at the end."""

    id: str
    title: str
    state: str
    accuracy: str
    seconds: str
    look: str = ""


@dataclass(frozen=True)
class ExperimentReport:
    """Everything on the page.

    Args:
        title: of the experiment.
        run: what was run, where and when.
        cards: (number, what it is).
        arms: the main table.
        blocks: of an ablation: title -> its rows beside what the paper prints.
        headlines: the metrics that matter most, on the test split.
        differences: to a reference, on the same samples.
        ranks: places of arms among each other.
        metrics, probes, inside: further tables; None where there is nothing.
        baselines: words on simple opponents.
        budgets: words on what equal steps, FLOPs and time mean here.
        curves: validation and training curves.
        sweeps: accuracy over what a sweep varies.
        groups: group -> accuracy per value.
        shares: whom the routers of zoos listen to.
        pictures: arm -> drawings of its trained network.
        growth: how networks grew; None where none could.
        printed: the paper's tables.
        trainings: all individuals.
        notes: what a reader must know.
    """

    title: str
    run: RunFacts
    arms: Words
    cards: Sequence[tuple[str, str]] = ()
    headlines: Words | None = None
    differences: Words | None = None
    ranks: Words | None = None
    metrics: Words | None = None
    probes: Words | None = None
    inside: Words | None = None
    baselines: str = ""
    budgets: str = ""
    curves: Sequence[Chart] = ()
    sweeps: Sequence[Chart] = ()
    groups: Mapping[str, tuple[Words, Chart | None]] = field(default_factory=dict)
    shares: Words | None = None
    pictures: Mapping[str, Sequence[Picture]] = field(default_factory=dict)
    growth: GrowthPart | None = None
    blocks: Mapping[str, Words] = field(default_factory=dict)
    printed: Sequence[PrintedTable] = ()
    trainings: Sequence[Training] = ()
    notes: Sequence[str] = ()

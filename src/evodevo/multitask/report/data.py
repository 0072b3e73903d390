"""What a report of a multitask system is made from: plain data, without a store or a network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from evodevo.multitask.diagrams.support_usage import SupportUse
from evodevo.multitask.diagrams.system.cycles import CycleCurve
from evodevo.multitask.diagrams.system.frame import SystemFrame
from evodevo.report.charts.heat_map import HeatRows
from evodevo.report.word_tables import TextTable


@dataclass(frozen=True)
class TaskParameters:
    """Of the paths that a task's agents offer: parameters that they made, and those that others did."""

    task: str
    added: int
    shared: int


@dataclass(frozen=True)
class AccuracyCurve:
    """Accuracy over cycles.

    Attributes:
        heading: what is compared.
        over: what repetitions are, in the plural.
        validation, test: by arm; test is empty where nothing was measured.
    """

    heading: str
    over: str
    validation: Sequence[CycleCurve]
    test: Sequence[CycleCurve]


@dataclass(frozen=True)
class AgentChildren:
    """The children of one agent, with a sentence on each.

    Attributes:
        agent: its name.
        summary: how many were kept.
        rows: the newest first.
    """

    agent: str
    summary: str
    rows: TextTable


@dataclass(frozen=True)
class SystemReport:
    """Everything that the page shows.

    Attributes:
        name: of the system.
        subtitle: below it.
        cards: (value, what it is).
        notes: sentences for the first section.
        frames: of the graph, in order; the last is now.
        moments: how many frames there would be of all publications.
        tasks: the leaderboard.
        agents: one row for each agent.
        parameters: by task.
        sharing: whose components are in whose paths; None where nothing is offered.
        makers: columns of that.
        courses: accuracy over cycles.
        supports: who is supported by whom.
        children: by agent.
        facts: (name, value).
        settings: of the system and of its agents.
    """

    name: str
    subtitle: str
    cards: Sequence[tuple[str, str]]
    notes: Sequence[str]
    frames: Sequence[SystemFrame]
    moments: int
    tasks: TextTable
    agents: TextTable
    parameters: Sequence[TaskParameters] = ()
    sharing: HeatRows | None = None
    makers: Sequence[str] = ()
    courses: Sequence[AccuracyCurve] = ()
    supports: Sequence[SupportUse] = ()
    children: Sequence[AgentChildren] = ()
    facts: Sequence[tuple[str, str]] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)

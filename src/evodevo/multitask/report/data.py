"""The data of a report of a multitask system: plain data, without a store or a network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from evodevo.multitask.diagrams.support_usage import SupportUse
from evodevo.multitask.diagrams.system.cycles import CycleCurve
from evodevo.multitask.diagrams.system.frame import SystemFrame
from evodevo.multitask.transfer.table import TransferTable
from evodevo.report.charts.heat_map import HeatRows
from evodevo.report.word_tables import TextTable


@dataclass(frozen=True)
class TaskParameters:
    """Parameters of the paths that a task's agents offer: those that they made, and those that others made."""

    task: str
    added: int
    shared: int


@dataclass(frozen=True)
class AccuracyCurve:
    """Accuracy over cycles.

    Attributes:
        heading: heading of the charts.
        over: noun for the repetitions, in the plural.
        validation, test: curves of the arms; test is empty where nothing was measured.
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
        summary: number of kept children, in words.
        rows: the newest first.
    """

    agent: str
    summary: str
    rows: TextTable


@dataclass(frozen=True)
class SystemReport:
    """The data of the page.

    Attributes:
        name: name of the system.
        subtitle: text below the name.
        cards: (value, name of the value).
        notes: sentences for the first section.
        frames: frames of the graph, in order; the last is the present.
        moments: number of frames of all publications.
        tasks: the leaderboard.
        agents: one row for each agent.
        parameters: parameters of each task.
        sharing: components in each agent's path by the agent that made them; None where nothing is offered.
        makers: columns of that table.
        courses: accuracy over cycles.
        supports: use of paths as supports.
        probes: agent -> its probes of the paths of others.
        children: rows on children, by agent.
        facts: (name, value).
        settings: settings of the system and of its agents.
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
    probes: Mapping[str, TransferTable] = field(default_factory=dict)
    children: Sequence[AgentChildren] = ()
    facts: Sequence[tuple[str, str]] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)

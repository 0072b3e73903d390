"""Use of supports: how often the children of each multipath agent ran through the paths of other tasks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from evodevo.report.charts.heat_map import HeatRows, heat_map
from evodevo.report.svg import empty


@dataclass(frozen=True)
class SupportUse:
    """One task's paths as supports of another task's multipath models.

    Attributes:
        task: task of the multipath agent.
        support: task, or root, of the supporting path.
        tried: number of children with it.
        kept: number of kept ones among them.
        offered: whether the model that is offered now runs through it.
        weight: mean weight in that model, where it was recorded.
    """

    task: str
    support: str
    tried: int
    kept: int
    offered: bool = False
    weight: float | None = None


def support_usage(uses: Sequence[SupportUse]) -> str:
    """Two heat maps with the multipath agents' tasks as rows and supports as columns: children proposed, and kept."""
    if not uses:
        return empty("No multipath model has run through a support yet.")
    rows, columns = list(dict.fromkeys(use.task for use in uses)), list(dict.fromkeys(use.support for use in uses))
    tried: dict[tuple[str, str], int] = defaultdict(int)
    kept: dict[tuple[str, str], int] = defaultdict(int)
    for use in uses:
        tried[use.task, use.support] += use.tried
        kept[use.task, use.support] += use.kept
    groups = [
        HeatRows(words, rows, [[counts[row, column] or None for column in columns] for row in rows])
        for words, counts in (("children asked for", tried), ("children kept", kept))
    ]
    return heat_map(groups, columns, "children of a task's multipath agent (row) with a support of a task (column)")

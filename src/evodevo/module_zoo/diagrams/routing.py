"""Share of each module in the answers, by class or group: mean router weight, and share of samples it is run on."""

from __future__ import annotations

from collections.abc import Sequence

from evodevo.report.charts.heat_map import HeatRows, heat_map
from evodevo.report.stack import stacked
from evodevo.report.svg import one_line

Rows = Sequence[Sequence[float | None]]


def module_routing_diagram(
    modules: Sequence[str], values: Sequence[str], weights: Rows, executed: Rows | None = None, fact: str = ""
) -> str:
    """Modules by the values of one fact as a heat map, as an SVG string.

    Args:
        modules: ids, the rows.
        values: values of the fact, the columns.
        weights: for each module and value the mean router weight; None where a value has no sample.
        executed: likewise the share of samples that the module is run on, a second map below; left out where every
            module runs on all.
        fact: name of the fact ("answer", "digit").
    """
    by = f" by {one_line(fact, 60)}" if fact else ""
    maps = [heat_map([HeatRows("", modules, weights)], values, f"mean router weight{by}")]
    if executed is not None:
        name = f"share of samples that a module is run on{by}"
        maps.append(heat_map([HeatRows("", modules, executed)], values, name, high=1.0))
    return maps[0] if len(maps) == 1 else stacked(maps, f"routing{by}")

"""Latency of a zoo for one batch, from a table that is measured once and stored with the run.

A zoo that was never built has a latency, too: the sum over its nodes, each measured by its type, and of everything
around the modules. Decisions then depend on the table and not on the load of the machine. ``zoo.calibration`` measures.

Legend: B samples, L positions, w channels.
"""

from __future__ import annotations

from pydantic import Field

from evodevo.module_zoo.cost import executed_share
from evodevo.module_zoo.modules.cost import nodes_with_widths
from evodevo.module_zoo.modules.nodes.base import NodeSpec
from evodevo.module_zoo.modules.spec import ModuleGenotype
from evodevo.module_zoo.spec import ZooStructure
from evodevo.settings import Settings


class Rate(Settings):
    """Seconds of one node: ``call + flop * FLOPs``."""

    call: float = Field(ge=0)
    flop: float = Field(ge=0)


class LatencyTable(Settings):
    """Measurements of one machine.

    Attributes:
        batch, length: B and L of the measurement.
        around: Seconds of everything but modules.
        rates: Rate by type of node. A type that is missing counts with the slowest rate.
    """

    batch: int = Field(ge=1)
    length: int = Field(ge=1)
    around: float = Field(ge=0)
    rates: dict[str, Rate] = Field(min_length=1)


def latency(structure: ZooStructure, table: LatencyTable) -> float:
    """Seconds of one batch in evaluation; modules count by the share of samples on which they run."""
    modules = sum(module_seconds(module.genotype, table) for module in structure.live)
    return table.around + float(executed_share(structure)) * modules


def module_seconds(genotype: ModuleGenotype, table: LatencyTable) -> float:
    """Seconds of one module on a whole batch."""
    slowest = Rate(
        call=max(rate.call for rate in table.rates.values()), flop=max(rate.flop for rate in table.rates.values())
    )
    total = 0.0
    for node, channels in computing_nodes(genotype):
        rate = table.rates.get(node.type, slowest)
        total += rate.call + rate.flop * table.batch * node.work(channels, table.length).total
    return total


def computing_nodes(genotype: ModuleGenotype) -> list[tuple[NodeSpec, int]]:
    """Each node that computes, with the channels that it reads."""
    return [(node, width) for node, width in nodes_with_widths(genotype) if not node.joins]

"""Latency of a zoo for one batch, from a table that is measured once and stored with the run.

A zoo that was never built has a latency, too: the sum over its nodes, each measured by its type, and of everything
around the modules. Decisions then depend on the table and not on the load of the machine.

Legend: B samples, L positions, w channels.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence

import torch
from pydantic import Field

from evodevo.module_zoo.cost import executed_share
from evodevo.module_zoo.model import ModuleZoo
from evodevo.module_zoo.modules.cost import nodes_with_widths
from evodevo.module_zoo.modules.nodes.base import NodeSpec
from evodevo.module_zoo.modules.spec import ModuleGenotype
from evodevo.module_zoo.spec import ZooStructure
from evodevo.networks.base import Batch
from evodevo.settings import Settings

ROUNDS = 7


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
    for node, channels in _nodes(genotype):
        rate = table.rates.get(node.type, slowest)
        total += rate.call + rate.flop * table.batch * node.work(channels, table.length).total
    return total


def calibrate(
    zoo: ModuleZoo, batch: Batch, *, more: Sequence[ModuleGenotype] = (), clock: Callable[[], float] = time.perf_counter
) -> LatencyTable:
    """Measure the table: each type of node at one sample and at all, and the zoo as a whole.

    Args:
        zoo: Zoo to measure; with the batch it determines B, L and what lies around modules.
        batch: Batch on the zoo's device.
        more: Genotypes that are not in the zoo and may be born.
        clock: Returns the time in seconds.
    """
    was_training = zoo.training
    zoo.eval()
    with torch.no_grad():
        tokens, mask = zoo.readable(zoo.fuse(batch).fused)
        count, length, _ = tokens.shape
        whole = _seconds(lambda: zoo(batch), tokens.device, clock)
        rates: dict[str, Rate] = {}
        genotypes = [module.genotype for module in zoo.structure.live]
        for genotype in (*genotypes, *more):
            for node, channels in _nodes(genotype):
                if node.type not in rates:
                    rates[node.type] = _rate(node, tokens.new_zeros(count, length, channels), mask, clock)
    zoo.train(was_training)
    bare = LatencyTable(batch=count, length=length, around=0.0, rates=rates)
    return bare.model_copy(update={"around": max(whole - latency(zoo.structure, bare), 0.0)})


def _rate(node: NodeSpec, x: torch.Tensor, mask: torch.Tensor | None, clock: Callable[[], float]) -> Rate:
    """The line through the seconds at one sample and at all samples."""
    with torch.random.fork_rng(devices=[]):
        part = node.build(x.shape[-1]).to(x.device, x.dtype).eval()

    def seconds(count: int) -> float:
        some = None if mask is None else mask[:count]
        return _seconds(lambda: part(x[:count], mask=some), x.device, clock)

    single, every = seconds(1), seconds(x.shape[0])
    work = node.work(x.shape[-1], x.shape[1]).total
    slope = max(every - single, 0.0) / max((x.shape[0] - 1) * work, 1)
    return Rate(call=max(every - slope * x.shape[0] * work, 0.0), flop=slope)


def _seconds(action: Callable[[], object], device: torch.device, clock: Callable[[], float]) -> float:
    """The median of several runs, after one that warms up."""

    def once() -> float:
        _wait(device)
        begin = clock()
        action()
        _wait(device)
        return clock() - begin

    once()
    return statistics.median(once() for _ in range(ROUNDS))


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _nodes(genotype: ModuleGenotype) -> list[tuple[NodeSpec, int]]:
    """Each node that computes, with the channels that it reads."""
    return [(node, width) for node, width in nodes_with_widths(genotype) if not node.joins]

"""What a zoo uses, against what it may never exceed (``CapSettings``): parameters, FLOPs, memory, time of a batch.

Legend: B samples, d width.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from evodevo.errors import UsageError
from evodevo.growth.h_model.pool import HModelPool, PoolStructure
from evodevo.growth.latency import LatencyTable, latency
from evodevo.growth.spec import CapSettings
from evodevo.module_zoo.cost import zoo_cost
from evodevo.networks.canvas import NamedInput, OutputSizes

NUMBER_BYTES = 4
KEPT_PER_PARAMETER = 4
"""A weight, its gradient, and two moments."""
KEPT_PER_ACTIVATION = 2
"""A product's result, and what a non-linearity made of it."""


@dataclass(frozen=True)
class Task:
    """What of a task and its training decides about cost.

    Attributes:
        inputs, outputs: of the task.
        batch: samples of one training step.
        table: of measured seconds; None where latency plays no part.
    """

    inputs: Sequence[NamedInput]
    outputs: Sequence[OutputSizes]
    batch: int = 1
    table: LatencyTable | None = None


@dataclass(frozen=True)
class Resources:
    """What one network uses.

    Attributes:
        parameters: of everything.
        flops: of one sample, executed in evaluation.
        memory_bytes: of a training step, estimated.
        latency: seconds of one batch in evaluation by the table; None without one.
    """

    parameters: int
    flops: int
    memory_bytes: int
    latency: float | None = None

    @classmethod
    def of(cls, structure: PoolStructure, task: Task) -> Resources:
        """From the structure alone; nothing is built.

        The estimate of memory takes every FLOP for a part of a product over d numbers, which gives one number per 2 d.
        """
        if isinstance(structure, HModelPool):
            # Of H-Models no seconds are known; who caps their latency is told so before anything is trained.
            cost, seconds = structure.cost(task.inputs, task.outputs), None
        else:
            cost = zoo_cost(structure, inputs=task.inputs, outputs=task.outputs)
            seconds = None if task.table is None else latency(structure, task.table)
        parameters = cost.parameters + cost.embedding_parameters
        activations = task.batch * cost.flops // (2 * structure.width)
        numbers = KEPT_PER_PARAMETER * parameters + KEPT_PER_ACTIVATION * activations
        return cls(parameters, cost.executed_flops, NUMBER_BYTES * numbers, seconds)

    def excess(self, caps: CapSettings) -> str | None:
        """A clause that says which cap is exceeded, and by what; None where none is.

        Raises:
            UsageError: there is a cap of latency, and no table.
        """
        if caps.latency is not None and self.latency is None:
            raise UsageError("a cap of latency needs a table of measured seconds; see growth.latency.calibrate.")
        for name, used, cap, unit in (
            ("parameters", self.parameters, caps.parameters, ""),
            ("flops", self.flops, caps.flops, ""),
            ("memory_bytes", self.memory_bytes, caps.memory_bytes, ""),
            ("latency", self.latency, caps.latency, " s"),
        ):
            if cap is not None and used is not None and used > cap:
                return f"{_number(used)}{unit} is over the cap of {name}, {_number(cap)}{unit}"
        return None


def check_start(structure: PoolStructure, task: Task, caps: CapSettings) -> Resources:
    """What the zoo uses before it grows.

    Raises:
        UsageError: more than a cap allows.
    """
    used = Resources.of(structure, task)
    excess = used.excess(caps)
    if excess is not None:
        raise UsageError(f"the zoo to begin with: {excess}. Raise the cap, or begin with a smaller zoo.")
    return used


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,.4g}"

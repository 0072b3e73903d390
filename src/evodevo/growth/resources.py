"""Resources of a network against its caps (``CapSettings``): parameters, FLOPs, memory, seconds of a batch.

Legend: B samples, d width.
"""

from __future__ import annotations

from dataclasses import dataclass

from evodevo.errors import UsageError
from evodevo.growth.growable import Growable, TaskSizes
from evodevo.growth.spec import CapSettings

NUMBER_BYTES = 4
KEPT_PER_PARAMETER = 4
"""Numbers kept per parameter: the weight, its gradient, and two moments."""
KEPT_PER_ACTIVATION = 2
"""Numbers kept per activation: the result of a product, and that of the non-linearity after it."""


@dataclass(frozen=True)
class Resources:
    """Resources of one network.

    Attributes:
        parameters: Number of parameters, embeddings included.
        flops: FLOPs of one sample, executed in evaluation.
        memory_bytes: Bytes of a training step, estimated.
        latency: Seconds of one batch in evaluation, from the table; None without one.
    """

    parameters: int
    flops: int
    memory_bytes: int
    latency: float | None = None

    @classmethod
    def of(cls, structure: Growable, task: TaskSizes) -> Resources:
        """Compute resources from the structure alone; nothing is built.

        The estimate of memory treats every FLOP as part of a product over d numbers, which gives one number per 2 d.
        """
        cost = structure.cost(task)
        seconds = None if task.table is None else structure.seconds(task.table)
        parameters = cost.parameters + cost.embedding_parameters
        activations = task.batch * cost.flops // (2 * structure.width)
        numbers = KEPT_PER_PARAMETER * parameters + KEPT_PER_ACTIVATION * activations
        return cls(parameters, cost.executed_flops, NUMBER_BYTES * numbers, seconds)

    def excess(self, caps: CapSettings) -> str | None:
        """A clause that names the cap that is exceeded, and by what; None where none is.

        Raises:
            UsageError: There is a cap of latency, and no table.
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
                return f"{number_words(used)}{unit} is over the cap of {name}, {number_words(cap)}{unit}"
        return None


def check_start(structure: Growable, task: TaskSizes, caps: CapSettings) -> Resources:
    """Resources of the network before it grows.

    Raises:
        UsageError: More than a cap that is in force from the start allows.
    """
    used = Resources.of(structure, task)
    excess = used.excess(caps.after(0))
    if excess is not None:
        raise UsageError(f"the zoo to begin with: {excess}. Raise the cap, or begin with a smaller zoo.")
    return used


def number_words(value: float) -> str:
    """A number of a limit: ``1,234``, and where it is none of a count ``0.00123``."""
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.4g}"

"""Windows of a task cut into shorter ones: as many tokens in a batch, in more windows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from evodevo.backbone.network import BackboneNetwork
from evodevo.backbone.spec import BackboneStructure
from evodevo.errors import UsageError
from evodevo.tasks.base import SampleTask
from evodevo.tasks.inputs import Batch


def cut_windows(whole: int, window: int) -> Callable[[Batch], Batch]:
    """A function that cuts each window of a batch into windows of so many tokens.

    Args:
        whole: Tokens of a window of the task.
        window: Tokens of the windows that are made of it.
    """

    def cut(batch: Batch) -> Batch:
        if window == whole:
            return batch
        if odd := sorted(name for name, values in batch.items() if values.shape[1:] != (whole,)):
            raise UsageError(f"windows of {whole} tokens cannot be cut where samples have {odd[0]!r} beside them.")
        return {name: values.reshape(-1, window) for name, values in batch.items()}

    return cut


def forward_flops(task: SampleTask, structure: BackboneStructure, window: int) -> float:
    """FLOPs of a forward pass on one sample of a task, cut into windows of so many tokens, by the cost model."""
    inputs = [replace(text, length=window) for text in task.inputs]
    flops: float = BackboneNetwork(structure=structure).cost(inputs=inputs, outputs=task.outputs).flops
    return flops * (task.inputs[0].length // window)

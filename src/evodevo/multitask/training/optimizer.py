"""Stochastic gradient descent with momentum for the components of a path, and one bound on all gradients together.

Source: docs/spec/munet.md#training. Equal to ``torch.optim.SGD`` without dampening and weight decay; the buffer may be
kept in bfloat16 as in the published code, which halves what momentum takes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from evodevo.multitask.training.values import OptimizerValues


class Momentum:
    """The optimizer. A parameter without a gradient stays as it is.

    Args:
        parameters: name -> what learns.
        values: momentum, Nesterov or not.
        buffer: number format of the buffers; None is each parameter's own.
        factors: beginning of a name -> factor of its learning rate.
    """

    def __init__(
        self,
        parameters: Mapping[str, nn.Parameter],
        values: OptimizerValues,
        buffer: torch.dtype | None = None,
        factors: Mapping[str, float] | None = None,
    ) -> None:
        self.parameters = dict(parameters)
        self.values = values
        self._buffer = buffer
        self._factors = {name: _factor(name, factors or {}) for name in self.parameters}
        self._trace: dict[str, Tensor] = {}

    def zero(self) -> None:
        """Forget all gradients."""
        for parameter in self.parameters.values():
            # None and not 0: a parameter that a step does not use keeps its value and its momentum.
            parameter.grad = None

    @torch.no_grad()
    def step(self, rate: float) -> None:
        """One step with this learning rate."""
        for name, parameter in self.parameters.items():
            gradient = parameter.grad
            if gradient is None:
                continue
            trace = gradient.clone()
            if name in self._trace:
                trace += self.values.momentum * self._trace[name].to(gradient.dtype)
            self._trace[name] = trace if self._buffer is None else trace.to(self._buffer)
            # The trace in full precision: only what is kept for the next step is rounded to the buffer's format.
            change = gradient + self.values.momentum * trace if self.values.nesterov else trace
            parameter.sub_(rate * self._factors[name] * change)


@torch.no_grad()
def clip(parameters: Sequence[nn.Parameter], largest: float) -> float:
    """Scale all gradients so that their joint norm is at most ``largest``; returns the norm that they had."""
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    if not gradients:
        return 0.0
    norm = float(nn.utils.get_total_norm(gradients))
    if norm > largest:
        for gradient in gradients:
            gradient *= largest / norm
    return norm


def _factor(name: str, factors: Mapping[str, float]) -> float:
    return next((factor for start, factor in factors.items() if name == start or name.startswith(f"{start}.")), 1.0)

"""A learning rate of its own for one module, as a factor of its gradients (µ4Net eqs. 11, 12).

Under plain SGD, with or without momentum, that is the same as another learning rate. A joint norm clip uses the scaled
gradients. Optimisers that divide a gradient by its size (Adam) undo it: they need a parameter group, for which models
give ``learning_rates()`` (see ``training.optimizers``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from evodevo.errors import UsageError


class _Scaled(torch.autograd.Function):
    @staticmethod
    def forward(output: Tensor, factor: float) -> Tensor:
        return output.view_as(output)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, float], output: Tensor) -> None:
        ctx.factor = inputs[1]

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return gradients[0] * ctx.factor, None


def scale_gradient(output: Tensor, factor: float) -> Tensor:
    """The same numbers; backward their gradient times ``factor`` (equation 12, exact in any precision).

    Modules before this one in the network receive the scaled gradient, too. For a module between others see
    ``scale_gradients``.

    Raises:
        UsageError: a factor outside [0, 1].
    """
    _check(factor)
    if factor == 1 or not torch.is_grad_enabled():
        return output
    scaled: Tensor = _Scaled.apply(output, factor)  # type: ignore[no-untyped-call]
    return scaled


def scale_gradients(module: nn.Module, factor: float) -> Callable[[], None]:
    """From now on every gradient of the module's own parameters is exactly ``factor`` times what it was.

    Nothing before or after the module learns otherwise. Parameters that are replaced later are not scaled.

    Returns:
        What ends it.

    Raises:
        UsageError: a factor outside [0, 1], or nothing that learns.
    """
    _check(factor)
    learning = [parameter for parameter in module.parameters() if parameter.requires_grad]
    if not learning:
        raise UsageError("no parameter of the module learns; there is no gradient to scale.")
    hooks: list[Any] = []
    for parameter in learning:
        hooks.append(parameter.register_hook(lambda gradient: gradient * factor))  # type: ignore[no-untyped-call]

    def end() -> None:
        for hook in hooks:
            hook.remove()

    return end


def _check(factor: float) -> None:
    if not 0 <= factor <= 1:
        raise UsageError(f"the factor of a module's gradients lies in [0, 1]; got {factor}.")

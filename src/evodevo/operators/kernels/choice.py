"""Which kernel computes a call: the first in the table that is installed, fits, and agrees with the own form.

A kernel is compared once for every size and number format, at its first use: outputs, and gradients of all inputs, on
a small random example. One that differs or raises is named in a warning, once, and the own form computes. One that
rounds float32 products to TF32 serves float32 values only where TF32 is wanted. The environment variable
``EVODEVO_KERNELS=off`` turns all of them off.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from evodevo.operators.kernels.table import KERNELS, Kernel, Served

SWITCH = "EVODEVO_KERNELS"
TOLERANCE = {torch.float32: 5e-3}
"""Largest relative error of an output or a gradient; kernels may compute float32 products in TF32."""
HALF_TOLERANCE = 3e-2

_agreed: dict[tuple[object, ...], bool] = {}
_warned: set[str] = set()
_devices: dict[str, frozenset[str]] = {}


def may_serve(served: Served, x: Tensor) -> bool:
    """Whether any kernel is for this device; the quick question before ``kernel_for``. Never while a graph is made or
    under a transform of ``torch.func``."""
    if torch.compiler.is_compiling():
        return False
    if served not in _devices:
        _devices[served] = frozenset(device for row in _rows(served) for device in row.devices)
    if x.device.type not in _devices[served] or os.environ.get(SWITCH) == "off":
        return False
    return not torch._C._are_functorch_transforms_active()


def kernel_for(
    served: Served,
    x: Tensor,
    sizes: dict[str, int],
    own: Callable[..., Any],
    example: Callable[[torch.device, torch.dtype], Sequence[Any]],
) -> Callable[..., Any] | None:
    """The kernel's adapter, or None where the own form has to compute.

    Args:
        served: name of the computation, as ``Kernel.serves`` has it.
        x: values, for device and number format.
        sizes: sizes of the call by name, as ``Kernel.fits`` takes them; of the example all but ``tokens`` are equal.
        own: the own form.
        example: arguments of own form and kernel for a comparison; tensors with gradients are compared in these too.
    """
    for row in _rows(served):
        if x.device.type not in row.devices or str(x.dtype).removeprefix("torch.") not in row.formats:
            continue
        if not row.fits(**sizes) or not row.installed or (row.rounds and _exact(x)):
            continue
        key = (row.name, x.device, x.dtype, *(size for name, size in sizes.items() if name != "tokens"))
        if key not in _agreed:
            _agreed[key] = _agrees(row, x, own, example)
        if _agreed[key]:
            return row.load()
    return None


def forget() -> None:
    """Forget what was compared, and which rows there are."""
    _agreed.clear()
    _warned.clear()
    _devices.clear()


def _exact(x: Tensor) -> bool:
    """Whether products of these values are to be float32, without TF32."""
    return x.dtype == torch.float32 and not torch.backends.cuda.matmul.allow_tf32


def _rows(served: Served) -> list[Kernel]:
    return [row for row in map(KERNELS.get, KERNELS) if row.serves == served]


def _agrees(
    row: Kernel, x: Tensor, own: Callable[..., Any], example: Callable[[torch.device, torch.dtype], Sequence[Any]]
) -> bool:
    try:
        with torch.inference_mode(False), torch.enable_grad(), torch.autocast(x.device.type, enabled=False):
            arguments = example(x.device, x.dtype)
            error = max(
                _error(a, b) for a, b in zip(_outputs(row.load(), arguments), _outputs(own, arguments), strict=True)
            )
    except Exception as failure:
        # Whatever a foreign package raises, the own form computes.
        return _refuse(row, f"it raised {type(failure).__name__}: {str(failure)[:200]}")
    if not error <= TOLERANCE.get(x.dtype, HALF_TOLERANCE):
        return _refuse(row, f"it differs from evodevo's own form by {error:.2g} (relative)")
    return True


def _outputs(function: Callable[..., Any], arguments: Sequence[Any]) -> list[Tensor]:
    """Outputs, and gradients of the sum of their squares."""
    leaves = [x for x in arguments if isinstance(x, Tensor) and x.requires_grad]
    outputs = [x for x in tree_leaves(function(*arguments)) if isinstance(x, Tensor)]
    total = sum((x.float().square().sum() for x in outputs), torch.zeros((), device=outputs[0].device))
    return [*outputs, *torch.autograd.grad(total, leaves)]


def _error(found: Tensor, wanted: Tensor) -> float:
    found, wanted = found.detach(), wanted.detach()
    if found.shape != wanted.shape or not bool(found.isfinite().all()):
        return float("inf")
    return float((found.double() - wanted.double()).norm() / wanted.double().norm().clamp_min(1e-12))


def _refuse(row: Kernel, why: str) -> bool:
    if row.name not in _warned:
        _warned.add(row.name)
        warnings.warn(
            f"the kernel {row.name} of {row.package} is not used: {why}. Its package may be of another version than "
            "the adapter knows.",
            stacklevel=4,
        )
    return False

"""Equal operators as one: the same computation on stacked parameters.

``group(operators, stack)`` gives a callable that runs G equal operators at once; every product is one batched product.
The parameters stay those of the operators: stacking is an operation that gradients go back through. An operator that
can be grouped names its ``Grouped`` class in ``grouped``; one without runs by itself.

Legend: G operators, B samples, S positions, d width, C channels out.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F

Signature = tuple[Hashable, ...]
Stack = Callable[[list[Tensor]], Tensor]
"""Stacks tensors of G operators, all of one shape, to (G, ...)."""


@dataclass(frozen=True)
class Grouped(ABC):
    """G equal operators as one."""

    @classmethod
    @abstractmethod
    def of(cls, operators: Sequence[Any], stack: Stack) -> Self:
        """Operators of one signature as one."""

    @staticmethod
    @abstractmethod
    def signature(operator: Any) -> Signature | None:
        """The properties that operators of one group share; None for one that cannot be grouped."""

    @abstractmethod
    def __call__(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """(G, B, S, d) and (G, B, S) or None -> (G, B, S, d)."""

    def pick(self, places: Tensor) -> Self:
        """Some of the operators, with copies of their parameters."""
        return replace(self, **{field.name: _picked(getattr(self, field.name), places) for field in fields(self)})


def _picked(value: Any, places: Tensor) -> Any:
    if isinstance(value, Tensor):
        return value.index_select(0, places)
    return value.pick(places) if isinstance(value, Grouped) else value


def _grouped(module: nn.Module) -> type[Grouped] | None:
    """How a module is grouped.

    Types are compared exactly: a linear map with a parametrisation, one that another library has put in its place, or a
    subclass of an operator is not known here.
    """
    return _PLAIN.get(type(module)) or vars(type(module)).get("grouped")


def signature(module: nn.Module) -> Signature | None:
    """The properties that equal modules share; None for a module that cannot be grouped.

    A module with hooks cannot: they wait for calls that would never come.
    """
    kind = _grouped(module)
    if kind is None or module._forward_hooks or module._forward_pre_hooks:
        return None
    return kind.signature(module)


def group(modules: Sequence[nn.Module], stack: Stack) -> Grouped:
    """Modules of one signature as one."""
    kind = _grouped(modules[0])
    assert kind is not None, "a module with a signature"
    return kind.of(modules, stack)


def dropout_now(operator: Any) -> float:
    """The share of numbers that an operator drops in its present mode, 0 to 1."""
    return float(operator.dropout) if operator.training else 0.0


def together(*parts: Hashable) -> Signature | None:
    """A signature of parts, unless one of them has none."""
    return None if any(part is None for part in parts) else parts


@dataclass(frozen=True)
class GroupedAffine(Grouped):
    """x W^T + b."""

    weight: Tensor  # (G, d, C)
    bias: Tensor | None  # (G, 1, C)

    @classmethod
    def of(cls, operators: Sequence[nn.Linear], stack: Stack) -> Self:
        bias = None if operators[0].bias is None else stack([operator.bias for operator in operators]).unsqueeze(1)
        return cls(stack([operator.weight for operator in operators]).mT, bias)

    @staticmethod
    def signature(operator: nn.Linear) -> Signature:
        return ("affine", *operator.weight.shape, operator.bias is None)

    def __call__(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        rows = x.flatten(1, -2)
        y = torch.bmm(rows, self.weight) if self.bias is None else torch.baddbmm(self.bias, rows, self.weight)
        return y.view(*x.shape[:-1], -1)


@dataclass(frozen=True)
class GroupedNorm(Grouped):
    """RMSNorm."""

    gain: Tensor  # (G, 1, 1, d)
    epsilon: float | None

    @classmethod
    def of(cls, operators: Sequence[nn.RMSNorm], stack: Stack) -> Self:
        return cls(stack([operator.weight for operator in operators])[:, None, None], operators[0].eps)

    @staticmethod
    def signature(operator: nn.RMSNorm) -> Signature | None:
        return ("norm", *operator.weight.shape, operator.eps) if operator.elementwise_affine else None

    def __call__(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        return F.rms_norm(x, x.shape[-1:], None, self.epsilon) * self.gain


_PLAIN: dict[type[nn.Module], type[Grouped]] = {nn.Linear: GroupedAffine, nn.RMSNorm: GroupedNorm}

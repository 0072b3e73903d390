"""The FLOPs that a network really computes, counted operation by operation. A multiply-add counts two.

Matrix products and convolutions are counted, whatever routing, skipping and halting did; sums, norms and softmax are
not, as in ``backbone.cost``. Attention is computed from plain products while it is counted, because the fused kernels
are invisible to counters; recurrent layers of PyTorch are counted by their formula where they are one kernel.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.utils.rnn import PackedSequence
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from evodevo.networks.base import Batch, Network

_BACKWARD = 2  # a backward pass has about two products for each of the forward


class _Products(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Adds up the FLOPs of products by PyTorch's formulas.

    ``FlopCounterMode`` gives the same number, and takes several times as long: it also attributes FLOPs to modules, and
    inspects each operation anew.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        counter = FlopCounterMode(display=False, custom_mapping={torch.ops.aten.mv: _matrix_vector})
        self.formulas: dict[Any, Any] = counter.flop_registry
        self.flops = 0
        self._composite: dict[Any, bool] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func not in self._composite:
            self._composite[func] = func not in self.formulas and func.has_kernel_for_dispatch_key(
                torch._C.DispatchKey.CompositeImplicitAutograd
            )
        if self._composite[func]:  # under ``inference_mode``: its products are inside
            with self:
                return func.decompose(*args, **kwargs)
        output = func(*args, **kwargs)
        formula = self.formulas.get(func.overloadpacket)
        if formula is not None:
            self.flops += formula(*args, **kwargs, out_val=output)
        return output


class Counter:
    """FLOPs counted so far."""

    def __init__(self) -> None:
        self.recurrent = 0.0
        self.products = _Products()

    @property
    def flops(self) -> float:
        """All of them."""
        return float(self.products.flops) + self.recurrent


@contextmanager
def counting(network: nn.Module) -> Iterator[Counter]:
    """FLOPs of everything that is computed inside, recurrent layers of this network included."""
    counter = Counter()
    seen: dict[int, int] = {}

    def begin(layer: nn.Module, arguments: tuple[Any, ...]) -> None:
        seen[id(layer)] = counter.products.flops

    def count(layer: nn.Module, arguments: tuple[Any, ...], output: Any) -> None:
        assert isinstance(layer, nn.LSTM)
        # Over packed sequences, and wherever there is no fused kernel, it is plain products, which are counted already.
        if counter.products.flops == seen[id(layer)]:
            counter.recurrent += _recurrent_flops(layer, arguments[0]) * (1 + _BACKWARD * torch.is_grad_enabled())

    layers = [module for module in network.modules() if isinstance(module, nn.LSTM)]
    hooks = [lstm.register_forward_pre_hook(begin) for lstm in layers]
    hooks += [lstm.register_forward_hook(count) for lstm in layers]
    try:
        with sdpa_kernel(SDPBackend.MATH), counter.products:
            yield counter
    finally:
        for hook in hooks:
            hook.remove()


@dataclass(frozen=True)
class OneStep:
    """One step of training looked at, without taking it.

    Attributes:
        flops: forward and backward.
        gradient_norms: part of the network ("core.layers.0") -> Euclidean norm of the gradient of its parameters.
    """

    flops: float
    gradient_norms: dict[str, float]


def look_at_step(network: Network, batch: Batch) -> OneStep:
    """Forward and backward on one batch; the network, its gradients and all random streams stay as they were."""
    was_training = network.training
    network.zero_grad(set_to_none=True)
    with torch.random.fork_rng(cuda_devices(batch)), counting(network) as counter:
        network.train().loss(batch).backward()  # type: ignore[no-untyped-call]
    squares: dict[str, float] = {}
    for name, parameter in network.named_parameters():
        if parameter.grad is not None:
            part = part_of(name)
            squares[part] = squares.get(part, 0.0) + float(parameter.grad.double().square().sum())
    network.zero_grad(set_to_none=True)
    network.train(was_training)
    return OneStep(counter.flops, {part: math.sqrt(square) for part, square in squares.items()})


def cuda_devices(batch: Batch) -> list[int]:
    """Numbers of the CUDA devices on which a batch is."""
    return sorted({tensor.device.index or 0 for tensor in batch.values() if tensor.is_cuda})


def part_of(name: str) -> str:
    """The layer that a parameter belongs to: its name up to the first number, else its first two names."""
    pieces = name.split(".")
    number = next((place for place, piece in enumerate(pieces) if piece.isdigit()), 1)
    return ".".join(pieces[: number + 1])


def _matrix_vector(matrix: Any, vector: Any, **_: Any) -> int:
    """The scores of an attention pool, which PyTorch's counter forgets."""
    return 2 * int(matrix[0]) * int(matrix[1])


def _recurrent_flops(layer: nn.LSTM, x: Tensor | PackedSequence) -> float:
    """Four gates, each a product with the input and one with the state, per position, layer and direction."""
    directions = 2 if layer.bidirectional else 1
    total, width = 0, layer.input_size
    for _ in range(layer.num_layers):
        total += directions * 2 * 4 * layer.hidden_size * (width + layer.hidden_size)
        width = directions * layer.hidden_size
    return float(total * x.data.shape[:-1].numel())

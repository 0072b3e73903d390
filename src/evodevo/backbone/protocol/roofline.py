"""A step of training, operation by operation, without computing it: bytes moved, FLOPs, and bytes that are alive.

The step runs on fake tensors, which have shapes and no memory, so that the paper's batch is counted on a laptop. What
is counted is what the code issues: chunks of the loss, recomputed activations and casts included.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch._subclasses import FakeTensorMode
from torch.utils._pytree import tree_iter
from torch.utils.flop_counter import flop_registry

from evodevo.backbone.protocol.devices import DeviceProfile
from evodevo.networks.build import build_network
from evodevo.networks.spec import NetworkSpec
from evodevo.tasks.base import OutputSpec
from evodevo.tasks.inputs import InputSpec
from evodevo.training.live_bytes import LiveBytes
from evodevo.training.settings import TrainingSettings

HALF = (torch.bfloat16, torch.float16)
_MOMENTS = 8
"""Bytes of two moments of a parameter."""
_UPDATE = 28
"""Bytes that AdamW moves per parameter: reads weight, gradient and moments, writes weight and moments."""
_BACKWARD = 2.5
"""Products of fused attention's backward pass per product of its forward pass: scores are computed again."""


@dataclass(frozen=True)
class CountedStep:
    """One part of a batch, forward and backward.

    Attributes:
        operations: (bytes moved, FLOPs, whether its factors are of half precision) -> number of such operations.
        saved: bytes that the graph holds between forward and backward pass, without weights.
        peak: largest number of bytes alive, gradients included, without weights and moments.
        parameters: number of parameters.
    """

    operations: dict[tuple[int, int, bool], int]
    saved: int
    peak: int
    parameters: int

    @property
    def flops(self) -> int:
        """FLOPs in products."""
        return sum(flops * count for (_, flops, _), count in self.operations.items())

    @property
    def memory(self) -> int:
        """Bytes of a training: peak, weights and moments."""
        return self.peak + (4 + _MOMENTS) * self.parameters

    def seconds(self, profile: DeviceProfile) -> float:
        """Seconds of forward and backward on a device at its peaks: the sum over operations."""
        return sum(
            count * profile.seconds(size, flops, half=half) for (size, flops, half), count in self.operations.items()
        )

    def update_seconds(self, profile: DeviceProfile) -> float:
        """Seconds of the optimiser's step, once a batch."""
        return _UPDATE * self.parameters / profile.bandwidth


def count_step(
    network: NetworkSpec,
    inputs: tuple[InputSpec, ...],
    outputs: tuple[OutputSpec, ...],
    training: TrainingSettings,
    *,
    samples: int,
    length: int,
    recompute: bool,
) -> CountedStep:
    """Count a step of a network that reads one text and predicts its next tokens.

    Args:
        network: the network.
        inputs, outputs: specifications of the text and of its next tokens.
        training: settings; of them number format and chunks of the loss count here.
        samples: samples of one part of a batch.
        length: tokens of a sample.
        recompute: whether activations are computed again in the backward pass.
    """
    counter = _Counter()
    with FakeTensorMode():
        model = build_network(network, inputs, outputs, 0).train()
        model.loss_tokens, model.checkpointing = training.loss_tokens, recompute  # type: ignore[assignment]
        text = torch.zeros((samples, length), dtype=torch.long)
        batch = {inputs[0].name: text, f"{outputs[0].name}/target": text.clone()}
        parameters = sum(parameter.numel() for parameter in model.parameters())
        with counter:
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=training.precision == "bfloat16"):
                loss = model.loss(batch)
            saved: int = counter.now()
            loss.backward()  # type: ignore[no-untyped-call]
    return CountedStep(dict(counter.operations), saved, counter.peak, parameters)


class _Counter(LiveBytes):  # type: ignore[no-untyped-call]
    """Bytes alive, and for every operation bytes moved and FLOPs."""

    def __init__(self) -> None:
        super().__init__()
        self.operations: Counter[tuple[int, int, bool]] = Counter()

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = super().__torch_dispatch__(function, types, args, kwargs)
        if not function.is_view and not _costs_nothing(function):
            tensors = [x for x in tree_iter((args, kwargs or {}, result)) if isinstance(x, Tensor)]
            half = any(x.dtype in HALF for x in tensors[:1])
            moved = sum(min(x.numel() * x.element_size(), x.untyped_storage().nbytes()) for x in tensors)
            self.operations[moved, _flops(function, args, kwargs or {}, result), half] += 1
        return result


def _costs_nothing(function: Any) -> bool:
    name: str = function._schema.name
    return name.rsplit("::")[1].startswith(("empty", "new_empty", "detach", "_reshape_alias"))


def _flops(function: Any, args: Any, kwargs: dict[str, Any], result: Any) -> int:
    name = function._schema.name
    if "scaled_dot_product" in name:
        backward = "backward" in name
        query, key = args[1:3] if backward else args[:2]
        places = [argument.name for argument in function._schema.arguments]
        causal = kwargs.get("is_causal", False)
        if "is_causal" in places and places.index("is_causal") < len(args):
            causal = args[places.index("is_causal")]
        products = 4 * query.numel() * key.shape[-2]
        return int(products * (_BACKWARD if backward else 1) / (2 if causal else 1))
    formula = flop_registry.get(function.overloadpacket)
    return 0 if formula is None else int(formula(*args, **kwargs, out_val=result))


def calibrate(device: torch.device, kind: torch.dtype) -> DeviceProfile:
    """Measure the peaks of a device: a product, a copy and the smallest operation, best of several."""
    size = 4096 if device.type == "cuda" else 768
    factors = [torch.randn(size, size, device=device).to(kind) for _ in range(2)]
    source = torch.empty(2**28 if device.type == "cuda" else 2**24, device=device)
    target, little = torch.empty_like(source), torch.zeros(1, device=device)
    speed = 2 * size**3 / _best(lambda: factors[0] @ factors[1], device)
    bandwidth = 2 * source.nbytes / _best(lambda: target.copy_(source), device)
    return DeviceProfile(
        str(device), None, bandwidth, single=speed, half=speed, launch=_best(lambda: little.add_(1), device)
    )


def _best(work: Any, device: torch.device) -> float:
    import time

    times = []
    for _ in range(5):
        before = time.perf_counter()
        work()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        times.append(time.perf_counter() - before)
    return min(times)

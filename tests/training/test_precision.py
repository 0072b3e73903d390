"""Device and dtype, decided once."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from evodevo.errors import UsageError
from evodevo.training.loop import train
from evodevo.training.precision import Precision, decide
from evodevo.training.settings import Budget, OptimizerSettings, TrainingSettings


def test_auto_is_what_the_machine_has() -> None:
    assert decide("auto").device.type == ("cuda" if torch.cuda.is_available() else "cpu")
    assert decide("cpu").device == torch.device("cpu")


def test_what_is_not_known_or_not_there_is_refused() -> None:
    for name in ("tpu", "cpu:1", "cuda:x", "", "cuda:-1"):
        with pytest.raises(UsageError, match="unknown device"):
            decide(name)
    with pytest.raises(UsageError, match="not on this machine"):
        decide("cuda:99")
    with pytest.raises(UsageError, match="unknown precision 'float16'"):
        decide("cpu", "float16")


@pytest.mark.parametrize(("precision", "dtype"), [("float32", torch.float32), ("bfloat16", torch.bfloat16)])
def test_autocast(precision: str, dtype: torch.dtype) -> None:
    with decide("cpu", precision).autocast():
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == dtype


def test_arrays_keep_their_numbers_and_formats_whatever_their_layout() -> None:
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    batch = {"x": x, "view": x[::2, ::-1], "pixels": x.astype(np.uint8)}
    placed = decide("cpu").place(batch)
    assert isinstance(placed, dict)
    assert [one.dtype for one in placed.values()] == [torch.float32, torch.float32, torch.uint8]
    for name, tensor in placed.items():
        assert np.array_equal(tensor.numpy(), batch[name])
    assert isinstance(decide("cpu").place(x), torch.Tensor)
    assert decide("cpu").tensor(batch["view"]).tolist() == batch["view"].tolist()


def flags() -> tuple[bool, bool]:
    return torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32


def test_tf32_is_what_was_asked_for_and_the_flags_are_restored() -> None:
    """They are flags of the process, and say on any machine what a CUDA device would do."""
    before = flags()
    device = torch.device("cuda")
    for context in ("products", "autocast"):
        for wanted in (True, False):
            with suppress(ZeroDivisionError), getattr(Precision(device, None, wanted), context)():
                assert flags() == (wanted, wanted)
                raise ZeroDivisionError
            assert flags() == before
    with Precision(torch.device("cpu"), None, True).products():
        assert flags() == before, "a CPU has no such products"
    assert decide("cpu", "tensorfloat32") == Precision(torch.device("cpu"), None, True)
    assert not decide("cpu", "bfloat16").tf32


def test_with_bfloat16_weights_gradients_and_moments_are_float32(tiny: Callable[..., nn.Module], batch_at: Any) -> None:
    model = tiny()
    products, gradients = set(), set()
    model.layers[0].register_forward_hook(lambda layer, given, output: products.add(output.dtype))
    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.register_hook(lambda gradient: gradients.add(gradient.dtype))
    settings = TrainingSettings(budget=Budget(steps=2), device="cpu", precision="bfloat16")
    result = train(model, settings, batch_at=batch_at, tokens_per_step=24, seed=1)
    assert (products, gradients) == ({torch.bfloat16}, {torch.float32})
    moments = [value for values in result.snapshot.optimizer.values() for value in values.values()]
    assert {one.dtype for one in [*moments, *model.parameters()]} == {torch.float32}


class Weight(nn.Module):
    """One weight that is pulled down, by a product in the format of autocast."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1, 1, dtype=dtype))

    def loss(self, batch: Tensor) -> Tensor:
        return (batch.to(self.weight.dtype) @ self.weight).sum()


def test_small_steps_are_not_lost() -> None:
    """100 steps of 10^-5 move a weight by 10^-3; in bfloat16 the next number below 1 is 0.004 away."""
    optimizer = OptimizerSettings(learning_rate=1e-5, warmup=0.0, floor=1.0, weight_decay=0.0)
    settings = TrainingSettings(budget=Budget(steps=100), device="cpu", precision="bfloat16", optimizer=optimizer)
    moved = []
    for dtype in (torch.float32, torch.bfloat16):
        model = Weight(dtype)
        train(model, settings, batch_at=lambda step: np.ones((1, 1), np.float32), tokens_per_step=1, seed=1)
        moved.append(1 - float(model.weight.detach()))
    assert moved[0] == pytest.approx(1e-3, rel=0.01)
    assert moved[1] == 0.0, "what masters in half precision would do"

"""Batches of named arrays: placed as they are, trained on exactly as arrays are, also over an interruption."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from evodevo.training.loop import TrainingSnapshot, train
from evodevo.training.precision import decide
from evodevo.training.settings import Budget, OptimizerSettings, TrainingSettings


class Line(nn.Module):
    """y = w x, told of the progress of its training."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(3))
        self.shares: list[float] = []
        self.observed: list[float] = []

    def observe(self) -> None:
        assert self.weight.grad is None, "the step is over"
        self.observed.append(float(self.weight.detach().sum()))

    def set_progress(self, share: float) -> None:
        self.shares.append(share)

    def loss(self, batch: dict[str, Tensor]) -> Tensor:
        noise = torch.randn(())
        return ((batch["x"] @ self.weight - batch["y"]) ** 2).mean() + 0.1 * noise * self.weight.sum()


def batch_at(step: int) -> dict[str, Any]:
    rng = np.random.default_rng(step)
    x = rng.normal(size=(4, 3)).astype(np.float32)
    return {"x": x, "y": x.sum(1), "pixels": rng.integers(0, 256, (4, 2, 2, 1), dtype=np.uint8)}


SETTINGS = TrainingSettings(
    budget=Budget(steps=10),
    optimizer=OptimizerSettings(learning_rate=0.1),
    batch_size=4,
    device="cpu",
    checkpoint_every=4,
)


def test_every_array_keeps_its_number_format() -> None:
    batch = batch_at(0)
    batch["view"] = batch["x"][::2, ::-1]
    placed = decide("cpu").place(batch)
    assert isinstance(placed, dict)
    assert {name: one.dtype for name, one in placed.items()} == {
        "x": torch.float32,
        "y": torch.float32,
        "pixels": torch.uint8,
        "view": torch.float32,
    }
    for name, tensor in placed.items():
        assert np.array_equal(tensor.numpy(), batch[name])
    assert isinstance(decide("cpu").place(batch["x"]), Tensor)


def test_an_interrupted_training_equals_the_whole_one() -> None:
    whole, kept = Line(), []
    result = train(
        whole,
        SETTINGS,
        batch_at=batch_at,
        tokens_per_step=4,
        seed=3,
        checkpoint=lambda one: kept.append(
            (
                TrainingSnapshot(
                    one.cursor, {k: {m: t.clone() for m, t in v.items()} for k, v in one.optimizer.items()}
                ),
                whole.weight.detach().clone(),
            )
        ),
    )
    assert result.tokens == 40
    assert whole.shares == [(step + 1) / 10 for step in range(10)]
    assert len(whole.observed) == 10
    assert whole.observed[-1] == float(whole.weight.detach().sum()), "after the step, not before"
    snapshot, weight = kept[0]
    again = Line()
    with torch.no_grad():
        again.weight.copy_(weight)
    resumed = train(again, SETTINGS, batch_at=batch_at, tokens_per_step=4, seed=3, resume=snapshot)
    assert torch.equal(again.weight, whole.weight)
    assert resumed.curve == result.curve
    assert again.shares == whole.shares[4:]

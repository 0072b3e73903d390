"""The schedule's values, and which parameters decay."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from evodevo.errors import UsageError
from evodevo.training import optimizers
from evodevo.training.settings import OptimizerSettings


def test_the_schedule_by_hand() -> None:
    rates = [optimizers.learning_rate_factor(step / 10, warmup=0.2, floor=0.1) for step in range(1, 11)]
    assert rates[:2] == pytest.approx([0.5, 1.0])
    assert rates[5] == pytest.approx(0.1 + 0.9 * 0.5)  # the middle of the descent, step 6
    assert rates[9] == pytest.approx(0.1)
    assert rates[3] == pytest.approx(0.1 + 0.45 * (1 + math.cos(math.pi * 2 / 8)))


@given(st.floats(0, 0.99), st.floats(0, 1), st.lists(st.floats(0, 1), min_size=2).map(sorted))
def test_it_rises_then_falls_between_zero_and_one(warmup: float, floor: float, moments: list[float]) -> None:
    rates = [optimizers.learning_rate_factor(moment, warmup, floor) for moment in moments]
    assert all(0 <= rate <= 1 + 1e-9 for rate in rates)
    for (early, before), (late, after) in zip(
        zip(moments, rates, strict=True), list(zip(moments, rates, strict=True))[1:], strict=False
    ):
        if late < warmup:
            assert after >= before
        elif early >= warmup:
            assert after <= before + 1e-12
            assert after >= floor - 1e-12
    assert optimizers.learning_rate_factor(1.0, warmup, floor) == pytest.approx(floor)


def test_matrices_decay_and_nothing_else(tiny) -> None:  # type: ignore[no-untyped-def]
    decayed, plain = optimizers.decay_groups(tiny())
    assert set(decayed) == {"embedding.weight", "layers.0.weight", "layers.1.weight", "unused.weight"}
    assert set(plain) == {"layers.0.bias", "layers.1.bias", "norm.weight", "norm.bias", "gate", "unused.bias"}


def test_the_groups_reach_the_optimiser(tiny) -> None:  # type: ignore[no-untyped-def]
    model = tiny()
    optimizer = optimizers.build(model, OptimizerSettings(weight_decay=0.3))
    decay = {id(p): group["weight_decay"] for group in optimizer.param_groups for p in group["params"]}
    assert {name: decay.get(id(p)) for name, p in model.named_parameters()} == {
        "gate": 0.0,
        "frozen": None,
        "embedding.weight": 0.3,
        "layers.0.weight": 0.3,
        "layers.0.bias": 0.0,
        "layers.1.weight": 0.3,
        "layers.1.bias": 0.0,
        "norm.weight": 0.0,
        "norm.bias": 0.0,
        "unused.weight": 0.3,
        "unused.bias": 0.0,
    }
    assert all(group["betas"] == (0.9, 0.95) for group in optimizer.param_groups)


class Slower(nn.Module):
    """A tower that learns slowly, but for its last layer; nothing is said of what has nearly its name."""

    def __init__(self) -> None:
        super().__init__()
        self.tower = nn.ModuleDict({"body": nn.Linear(2, 2), "last": nn.Linear(2, 2)})
        self.tower2 = nn.Linear(2, 2)

    def learning_rates(self) -> dict[str, float]:
        return {"tower": 0.1, "tower.last": 0.5}


def test_parts_of_a_model_learn_at_their_own_rate() -> None:
    model = Slower()
    optimizer = optimizers.build(model, OptimizerSettings(learning_rate=1.0, weight_decay=0.3))
    optimizers.set_learning_rate(optimizer, 0.2)
    found = {id(p): (group["lr"], group["weight_decay"]) for group in optimizer.param_groups for p in group["params"]}
    assert {name: found[id(p)] for name, p in model.named_parameters()} == {
        "tower.body.weight": (pytest.approx(0.02), 0.3),
        "tower.body.bias": (pytest.approx(0.02), 0.0),
        "tower.last.weight": (0.1, 0.3),
        "tower.last.bias": (0.1, 0.0),
        "tower2.weight": (0.2, 0.3),
        "tower2.bias": (0.2, 0.0),
    }
    changed = optimizers.build(model, OptimizerSettings(learning_rate=1.0), {"tower": 3.0})
    rates = {id(p): group["lr"] for group in changed.param_groups for p in group["params"]}
    assert rates[id(model.tower["body"].bias)] == 3.0, "what is given comes before what the model says"
    assert sum(len(group["params"]) for group in optimizer.param_groups) == 6, "each stands in exactly one group"
    model.learning_rates = lambda: {"towr": 0.1}  # type: ignore[method-assign]
    with pytest.raises(UsageError, match="'towr'"):
        optimizers.build(model, OptimizerSettings())


def test_nothing_to_train() -> None:
    with pytest.raises(UsageError, match="every one is frozen"):
        optimizers.build(nn.Linear(2, 2).requires_grad_(False), OptimizerSettings())


@pytest.mark.parametrize(
    ("name", "shape", "message"), [("other", (2, 2), "does not train"), ("weight", (3, 2), "does not fit")]
)
def test_a_state_of_another_model_is_refused(name: str, shape: tuple[int, ...], message: str) -> None:
    model = nn.Linear(2, 2)
    optimizer = optimizers.build(model, OptimizerSettings())
    state = {name: {"exp_avg": torch.zeros(shape), "exp_avg_sq": torch.zeros(shape), "step": torch.tensor(1.0)}}
    with pytest.raises(UsageError, match=message):
        optimizers.load_state(model, optimizer, state)

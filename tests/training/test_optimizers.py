"""The schedule's values, and which parameters decay."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from evodevo.errors import UsageError
from evodevo.settings import validate
from evodevo.training import optimizers
from evodevo.training.settings import (
    Budget,
    MomentumSettings,
    OptimizerSettings,
    TrainingSettings,
    restarted,
)


def test_the_schedule_by_hand() -> None:
    settings = OptimizerSettings(learning_rate=1.0, warmup=0.2, floor=0.1)
    rates = [settings.rate_at(0, None, step / 10) for step in range(1, 11)]
    assert rates[:2] == pytest.approx([0.5, 1.0])
    assert rates[5] == pytest.approx(0.1 + 0.9 * 0.5)  # the middle of the descent, step 6
    assert rates[9] == pytest.approx(0.1)
    assert rates[3] == pytest.approx(0.1 + 0.45 * (1 + math.cos(math.pi * 2 / 8)))


@given(st.floats(0, 0.99), st.floats(0, 1), st.lists(st.floats(0, 1), min_size=2).map(sorted))
def test_it_rises_then_falls_between_zero_and_one(warmup: float, floor: float, moments: list[float]) -> None:
    settings = OptimizerSettings(learning_rate=1.0, warmup=warmup, floor=floor)
    rates = [settings.rate_at(0, None, moment) for moment in moments]
    assert all(0 <= rate <= 1 + 1e-9 for rate in rates)
    for (early, before), (late, after) in itertools.pairwise(zip(moments, rates, strict=True)):
        if late < warmup:
            assert after >= before
        elif early >= warmup:
            assert after <= before + 1e-12
            assert after >= floor - 1e-12
    assert settings.rate_at(0, None, 1.0) == pytest.approx(floor)


@given(st.lists(st.floats(0.01, 0.99), max_size=3, unique=True), st.floats(0, 0.99), st.floats(0, 1))
def test_a_restart_is_the_highest_rate_and_what_is_left_of_the_budget_a_whole_descent(
    restarts: list[float], warmup: float, share: float
) -> None:
    settings = OptimizerSettings(learning_rate=1.0, warmup=warmup, floor=0.1, restarts=tuple(restarts))
    usual, cold = (OptimizerSettings(learning_rate=1.0, warmup=rise, floor=0.1) for rise in (warmup, 0.0))
    begun = [restart for restart in restarts if restart <= share]
    if not begun:
        assert settings.rate_at(0, None, share) == usual.rate_at(0, None, share)
    else:
        left = (share - max(begun)) / (1 - max(begun))
        assert settings.rate_at(0, None, share) == pytest.approx(cold.rate_at(0, None, left))
        assert settings.rate_at(0, None, max(begun)) == pytest.approx(1.0)


def test_a_training_of_momentum_has_no_restart_and_plain_data_keep_theirs() -> None:
    training = TrainingSettings(budget=Budget(steps=4))
    again = restarted(restarted(training, 0.25), 0.5)
    assert again.optimizer.restarts == (0.25, 0.5)
    assert validate(TrainingSettings, again.model_dump(mode="json"), what="training") == again
    assert "restarts" not in training.model_dump(mode="json")["optimizer"]
    assert restarted(training, 1.0) == training
    with pytest.raises(UsageError, match="AdamW"):
        restarted(training.model_copy(update={"optimizer": MomentumSettings()}), 0.5)


def test_matrices_decay_and_nothing_else(tiny) -> None:  # type: ignore[no-untyped-def]
    model = tiny()
    decays = {"embedding.weight", "layers.0.weight", "layers.1.weight", "unused.weight"}
    decayed, plain = optimizers.decay_groups(model)
    assert decayed.keys() == decays
    assert plain.keys() == {"layers.0.bias", "layers.1.bias", "norm.weight", "norm.bias", "gate", "unused.bias"}
    optimizer = optimizers.build(model, OptimizerSettings(weight_decay=0.3))
    decay = {id(p): group["weight_decay"] for group in optimizer.param_groups for p in group["params"]}
    names = {id(p): name for name, p in model.named_parameters()}
    assert {names[one]: value for one, value in decay.items()} == {
        name: 0.3 if name in decays else 0.0 for name in (*decayed, *plain)
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


def test_nothing_to_train_or_the_state_of_another_model_is_refused() -> None:
    with pytest.raises(UsageError, match="every one is frozen"):
        optimizers.build(nn.Linear(2, 2).requires_grad_(False), OptimizerSettings())
    for name, shape, message in (("other", (2, 2), "does not train"), ("weight", (3, 2), "does not fit")):
        model = nn.Linear(2, 2)
        state = {name: {"exp_avg": torch.zeros(shape), "exp_avg_sq": torch.zeros(shape), "step": torch.tensor(1.0)}}
        with pytest.raises(UsageError, match=message):
            optimizers.load_state(model, optimizers.build(model, OptimizerSettings()), state)


# Momentum: docs/spec/munet.md#reference-numbers


def rates(settings: MomentumSettings, steps: int) -> list[float]:
    return [settings.rate_at(step, steps, (step + 1) / steps) for step in range(steps)]


def test_the_cosine_of_momentum_has_the_specifications_numbers() -> None:
    found = rates(MomentumSettings(), 400)
    wanted = {0: 2e-5, 1: 0.0025175, 4: 0.01001, 8: 0.02, 9: 0.019999679, 100: 0.01740278, 204: 0.01, 399: 3.2114e-7}
    assert {step: found[step] for step in wanted} == pytest.approx(wanted, rel=1e-4)


def test_the_other_schedules_of_momentum() -> None:
    assert rates(MomentumSettings(warmup=0.0), 400)[0] == 0.02
    assert set(rates(MomentumSettings(schedule="constant"), 40)) == {0.01}
    linear = rates(MomentumSettings(schedule="linear", warmup=0.1), 40)
    assert linear[0] == pytest.approx(2e-5)
    assert max(linear) == linear[4] == 0.02
    falls = [early - late for early, late in itertools.pairwise(linear[4:])]
    assert falls == pytest.approx([falls[0]] * 35)
    restarts = rates(MomentumSettings(schedule="restarts", interval=10), 40)
    assert restarts[:10] == restarts[10:20] == restarts[30:]
    assert restarts[0] == 0.02
    assert restarts[9] < 0.001
    with pytest.raises(UsageError, match="budget in steps"):
        MomentumSettings().rate_at(0, None, 0.5)


@pytest.mark.parametrize(
    ("nesterov", "course"),
    [
        (False, (0.8, 0.48, 0.128, -0.1792, -0.38912)),
        (True, (0.64, 0.2816, -0.004096, -0.186122, -0.265395)),
    ],
)
def test_momentum_has_the_specifications_numbers(nesterov: bool, course: tuple[float, ...]) -> None:
    model = unit().double()
    optimizer = optimizers.build(model, MomentumSettings(learning_rate=0.1, momentum=0.8, nesterov=nesterov))
    assert [squared(model, optimizer) for _ in course] == pytest.approx(course, abs=1e-6)


@pytest.mark.parametrize("nesterov", [True, False])
def test_momentum_equals_pytorchs_up_to_rounding(nesterov: bool) -> None:
    torch.manual_seed(0)
    ours, theirs = nn.Linear(5, 3), nn.Linear(5, 3)
    theirs.load_state_dict(ours.state_dict())
    one = optimizers.build(ours, MomentumSettings(momentum=0.9, nesterov=nesterov), {"bias": 0.1})
    two = torch.optim.SGD(
        [{"params": [theirs.weight], "factor": 1.0}, {"params": [theirs.bias], "factor": 0.1}],
        lr=0.1,
        momentum=0.9,
        nesterov=nesterov,
    )
    for step in range(6):
        x = torch.randn(4, 5)
        for model, optimizer in ((ours, one), (theirs, two)):
            model.zero_grad()
            model(x).pow(2).mean().backward()
            optimizers.set_learning_rate(optimizer, 0.1 / (step + 1))
            optimizer.step()
    for name, parameter in ours.named_parameters():
        torch.testing.assert_close(parameter, theirs.get_parameter(name), rtol=1e-6, atol=1e-7)


def unit() -> nn.Linear:
    """w, which is 1."""
    model = nn.Linear(1, 1, bias=False)
    nn.init.ones_(model.weight)
    return model


def squared(model: nn.Linear, optimizer: optimizers.Momentum) -> float:
    """A step on w^2."""
    optimizer.zero_grad()
    (model.weight**2).sum().backward()
    optimizer.step()
    return float(model.weight.detach())


def test_a_trace_in_bfloat16_is_near_and_not_equal() -> None:
    ends = []
    for form in ("float32", "bfloat16"):
        model = unit()
        optimizer = optimizers.build(model, MomentumSettings(learning_rate=0.013, trace_format=form))
        ends.append([squared(model, optimizer) for _ in range(5)][-1])
    assert ends[0] != ends[1]
    assert ends[0] == pytest.approx(ends[1], abs=0.01)


def test_momentum_bounds_gradients_together_and_leaves_short_ones_to_the_bit() -> None:
    model = nn.ModuleList([nn.Linear(2, 1, bias=False) for _ in range(3)])
    optimizer = optimizers.build(model, MomentumSettings())
    parts = list(model.parameters())
    for scale, part in enumerate(parts):
        part.grad = torch.full((1, 2), float(scale))
    before = torch.cat([part.grad for part in parts if part.grad is not None])
    assert float(optimizer.clip(parts, 1.0)) == pytest.approx(float(before.norm()))
    after = torch.cat([part.grad for part in parts if part.grad is not None])
    torch.testing.assert_close(after, before / before.norm())
    optimizer.clip(parts, 5.0)
    assert torch.equal(torch.cat([part.grad for part in parts if part.grad is not None]), after)


def test_settings_read_as_adamw_hold_momentum_as_it_is_given() -> None:
    settings = TrainingSettings(budget=Budget(steps=1), optimizer=MomentumSettings(momentum=0.5))
    assert settings.optimizer == MomentumSettings(momentum=0.5)
    plain = TrainingSettings(budget=Budget(steps=1), optimizer=OptimizerSettings(clip=2.0))
    assert validate(TrainingSettings, plain.model_dump(mode="json"), what="settings") == plain
    with pytest.raises(UsageError, match=r"unknown key 'optimizer.clips' \(did you mean 'clip'"):
        validate(TrainingSettings, {"budget": {"steps": 1}, "optimizer": {"clips": 1.0}}, what="settings")

"""A training in segments is the whole one; after an edit who is left keeps its moments."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from evodevo.errors import UsageError
from evodevo.training import optimizers
from evodevo.training.loop import TrainingResult, TrainingSnapshot, train
from evodevo.training.settings import Budget, MomentumSettings, OptimizerSettings, TrainingSettings

TOKENS = 24
STEPS = 12


def _settings(**budget: Any) -> TrainingSettings:
    return TrainingSettings(
        budget=Budget(**(budget or {"steps": STEPS})), device="cpu", optimizer=OptimizerSettings(warmup=0.25)
    )


def _train(model: nn.Module, batch_at: Any, settings: TrainingSettings | None = None, **others: Any) -> TrainingResult:
    return train(model, settings or _settings(), batch_at=batch_at, tokens_per_step=TOKENS, seed=3, **others)


def _equal(a: dict[str, Tensor], b: dict[str, Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def _same_snapshots(a: TrainingSnapshot, b: TrainingSnapshot) -> bool:
    return a.optimizer.keys() == b.optimizer.keys() and all(_equal(a.optimizer[n], b.optimizer[n]) for n in a.optimizer)


@pytest.mark.parametrize(
    ("borders", "changed", "optimizer"),
    [
        ((1,), False, MomentumSettings(trace_format="bfloat16")),
        ((3, 4, 9), True, MomentumSettings(trace_format="bfloat16")),
        ((0, 5), True, OptimizerSettings(warmup=0.25)),
        (tuple(range(1, STEPS)), False, OptimizerSettings(warmup=0.25)),
    ],
)
def test_segments_are_the_uninterrupted_training(
    tiny: Any, batch_at: Any, borders: tuple[int, ...], changed: bool, optimizer: OptimizerSettings | MomentumSettings
) -> None:
    settings = _settings().model_copy(update={"optimizer": optimizer})
    whole, parts = tiny(), tiny()
    expected = _train(whole, batch_at, settings)
    snapshot = None
    for border in borders:
        result = _train(parts, batch_at, settings, resume=snapshot, until=border, changed=changed)
        assert (result.state, result.steps, result.tokens) == ("paused", border, border * TOKENS)
        snapshot = result.snapshot
    result = _train(parts, batch_at, settings, resume=snapshot, changed=changed)
    assert (result.state, result.steps) == ("finished", STEPS)
    assert result.curve == expected.curve
    assert result.final_loss == expected.final_loss
    assert _equal(whole.state_dict(), parts.state_dict())
    assert _same_snapshots(expected.snapshot, result.snapshot)


def test_a_border_at_the_end_or_behind_it_is_none(tiny: Any, batch_at: Any) -> None:
    for until in (STEPS, STEPS + 5):
        assert _train(tiny(), batch_at, until=until).state == "finished"


@given(share=st.floats(0, 1))
def test_a_share_is_the_first_border_that_uses_it_up(share: float) -> None:
    model = nn.Linear(1, 1)
    result = train(
        model,
        TrainingSettings(budget=Budget(steps=7), device="cpu"),
        batch_at=lambda step: torch.ones(2, 1).numpy(),
        tokens_per_step=1,
        seed=0,
        loss_function=lambda one, batch: one(batch).square().mean(),
        until_share=share,
    )
    first = next(step for step in range(8) if step / 7 >= share)
    assert (result.steps, result.state) == (first, "finished" if first == 7 else "paused")


def test_a_share_of_seconds_is_one_of_the_clock(tiny: Any, batch_at: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = itertools.count()
    monkeypatch.setattr("evodevo.training.loop.time.monotonic", lambda: next(ticks) * 0.25)
    model, settings = tiny(), _settings(seconds=40.0)
    first = _train(model, batch_at, settings, until_share=0.5)
    assert first.state == "paused"
    assert 20 <= first.seconds < 23
    second = _train(model, batch_at, settings, resume=first.snapshot)
    assert second.state == "finished"
    assert 40 <= second.seconds < 43


def _edit(model: nn.Module, added: str = "child") -> None:
    """One part goes, another one comes."""
    del model.unused
    model.add_module(added, nn.Linear(8, 8))


def test_whoever_is_left_keeps_its_moments_to_the_bit(tiny: Any, batch_at: Any) -> None:
    model = tiny()
    model.unused.weight.grad = None
    paused = _train(model, batch_at, until=5, loss_function=lambda one, batch: one.loss(batch) + _sum(one.unused))
    assert "unused.weight" in paused.snapshot.optimizer
    before = {name: {k: v.clone() for k, v in one.items()} for name, one in paused.snapshot.optimizer.items()}
    _edit(model)
    optimizer = optimizers.build(model, OptimizerSettings(), {"child": 0.1})
    with pytest.raises(UsageError, match=r"'unused.weight', which this model does not train"):
        optimizers.load_state(model, optimizer, paused.snapshot.optimizer)
    optimizers.load_state(model, optimizer, paused.snapshot.optimizer, changed=True)
    after = optimizers.state_by_name(model, optimizer)
    assert after.keys() == {name for name in before if not name.startswith("unused")}
    assert all(_equal(after[name], before[name]) for name in after)

    members = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    trainable = [parameter for parameter in model.parameters() if parameter.requires_grad]
    assert sorted(map(id, members)) == sorted(map(id, trainable))
    factors = {id(one): group["factor"] for group in optimizer.param_groups for one in group["params"]}
    assert {name: factors[id(one)] for name, one in model.named_parameters() if factors.get(id(one)) == 0.1} == {
        "child.weight": 0.1,
        "child.bias": 0.1,
    }


def test_a_parameter_of_another_shape_is_not_the_one_that_was(tiny: Any, batch_at: Any) -> None:
    model = tiny()
    paused = _train(model, batch_at, until=5)
    model.norm = nn.LayerNorm(9)
    optimizer = optimizers.build(model, OptimizerSettings())
    with pytest.raises(UsageError, match=r"'norm.weight' does not fit"):
        optimizers.load_state(model, optimizer, paused.snapshot.optimizer, changed=True)


def test_the_newborn_learns_and_counts_its_own_steps(tiny: Any, batch_at: Any) -> None:
    """Against the same training with an optimiser that was never taken apart: one group more, nothing else."""
    model = tiny(dropout=0.0)
    paused = _train(model, batch_at, until=5)
    torch.manual_seed(0)
    _edit(model)
    born = {name: one.detach().clone() for name, one in model.child.named_parameters()}
    result = _train(
        model,
        batch_at,
        resume=paused.snapshot,
        changed=True,
        factors={"child": 0.5},
        loss_function=lambda one, batch: one.loss(batch) + _sum(one.child),
    )
    assert result.state == "finished"
    steps = {name: int(values["step"]) for name, values in result.snapshot.optimizer.items()}
    assert steps["child.weight"] == STEPS - 5
    assert steps["embedding.weight"] == STEPS
    assert not any(torch.equal(born[name], one) for name, one in model.child.named_parameters())


def _sum(part: nn.Module) -> Tensor:
    return torch.stack([one.square().sum() for one in part.parameters()]).sum()

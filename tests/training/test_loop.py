"""The loop against a plain one, against itself stopped and resumed, and against models that go wrong."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from evodevo.errors import UsageError
from evodevo.randomness import integer_seed
from evodevo.training import checkpoints, optimizers
from evodevo.training.loop import MAX_CURVE_POINTS, LossCurve, TrainingResult, train
from evodevo.training.precision import Precision
from evodevo.training.settings import Budget, MomentumSettings, OptimizerSettings, TrainingSettings

TOKENS = 24  # four windows of six
CPU = Precision(torch.device("cpu"), None)


def _settings(steps: int | None = 20, **others: Any) -> TrainingSettings:
    budget = others.pop("budget", None) or Budget(steps=steps)
    return TrainingSettings(budget=budget, device="cpu", **{"optimizer": OptimizerSettings(warmup=0.25), **others})


def _train(model: nn.Module, settings: TrainingSettings, batch_at: Any, **others: Any) -> TrainingResult:
    return train(model, settings, batch_at=batch_at, tokens_per_step=TOKENS, **{"seed": 3, **others})


def _equal(a: dict[str, Tensor], b: dict[str, Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def _same_weights(a: nn.Module, b: nn.Module) -> bool:
    return _equal(a.state_dict(), b.state_dict())


def test_it_equals_a_plain_loop(tiny: Any, batch_at: Any) -> None:
    ours, plain = tiny(), tiny()
    before = torch.get_rng_state()
    result = _train(ours, _settings(20), batch_at)
    assert torch.equal(before, torch.get_rng_state()), "the caller's random numbers are not touched"

    names = dict(plain.named_parameters())
    decayed = [names[name] for name in ("embedding.weight", "layers.0.weight", "layers.1.weight", "unused.weight")]
    others = [p for p in plain.parameters() if p.requires_grad and all(p is not d for d in decayed)]
    optimizer = torch.optim.AdamW(
        [{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}],
        betas=(0.9, 0.95),
        fused=True,
    )
    schedule = OptimizerSettings(learning_rate=3e-3, warmup=0.25, floor=0.1)
    losses = []
    with torch.random.fork_rng([]):
        for step in range(20):
            torch.manual_seed(integer_seed(3, step, "forward"))
            for group in optimizer.param_groups:
                group["lr"] = schedule.rate_at(step, 20, (step + 1) / 20)
            optimizer.zero_grad()
            loss = plain.loss(torch.from_numpy(batch_at(step)))
            loss.backward()
            torch.nn.utils.clip_grad_norm_(plain.parameters(), 1.0)
            optimizer.step()
            losses.append(loss.item())

    assert [loss for _, loss in result.curve] == losses
    assert [tokens for tokens, _ in result.curve] == [TOKENS * (step + 1) for step in range(20)]
    assert _same_weights(ours, plain)
    assert (result.state, result.steps, result.tokens) == ("finished", 20, 480)


@pytest.mark.parametrize("parts", [2, 4])
def test_a_batch_in_parts_gives_the_training_of_the_whole(tiny: Any, batch_at: Any, parts: int) -> None:
    whole, pieces = tiny(dropout=0.0).double(), tiny(dropout=0.0).double()
    first = _train(whole, _settings(8, batch_size=4), batch_at)
    second = _train(pieces, _settings(8, batch_size=4, parts=parts), batch_at)
    assert [loss for _, loss in second.curve] == pytest.approx([loss for _, loss in first.curve], rel=1e-6)
    for ours, theirs in zip(whole.parameters(), pieces.parameters(), strict=True):
        torch.testing.assert_close(theirs, ours, rtol=1e-9, atol=1e-12)
    named = _train(
        tiny(dropout=0.0).double(),
        _settings(8, batch_size=4, parts=parts),
        lambda step: {"text": batch_at(step)},
        loss_function=lambda model, batch: model.loss(batch["text"]),
    )
    assert named.curve == second.curve


def test_it_learns(tiny: Any, batch_at: Any) -> None:
    settings = _settings(100, optimizer=OptimizerSettings(warmup=0.25, learning_rate=1e-2))
    result = _train(tiny(dropout=0.0, width=16), settings, batch_at, uniform_loss=math.log(11))
    assert result.state == "finished"
    assert result.final_loss is not None
    assert result.final_loss < 0.5 < 2.0 < result.curve[0][1]


@pytest.mark.parametrize("stop", [2, 5, 13, 20], ids=["in the warm-up", "at its end", "after it", "at the last step"])
def test_a_stopped_and_resumed_training_is_the_uninterrupted_one(
    tiny: Any, batch_at: Any, memory: Any, stop: int
) -> None:
    whole = tiny()
    expected = _train(whole, _settings(20), batch_at)

    names: list[str] = []
    first = tiny()
    settings = _settings(20, report_every=1)
    stopped = _train(
        first,
        settings,
        batch_at,
        report=lambda progress: progress.step < stop,
        checkpoint=lambda snapshot: names.append(checkpoints.save(memory, first, snapshot=snapshot)),
    )
    assert (stopped.state, stopped.steps, len(names)) == ("stopped", stop, 1)

    torch.rand(7)  # a resume happens in another process, with other random numbers behind it
    second = tiny(seed=99)
    checkpoint = checkpoints.load(memory, names[0])
    checkpoint.restore(second)
    assert _same_weights(first, second)
    result = _train(second, _settings(20), batch_at, resume=checkpoint.snapshot(second))

    assert result.curve == expected.curve
    assert (result.state, result.steps, result.final_loss) == ("finished", 20, expected.final_loss)
    assert _same_weights(whole, second)
    for name, values in expected.snapshot.optimizer.items():
        for key, tensor in values.items():
            assert torch.equal(tensor, result.snapshot.optimizer[name][key])


def test_periodic_checkpoints_and_reports_do_not_change_the_training(tiny: Any, batch_at: Any, memory: Any) -> None:
    plain, kept, seen, steps = tiny(), tiny(), [], []

    def keep(snapshot: Any) -> None:
        steps.append(snapshot.cursor.step)
        checkpoints.save(memory, kept, snapshot=snapshot)

    _train(plain, _settings(10), batch_at)
    watched = _settings(10, checkpoint_every=4, report_every=4)
    _train(kept, watched, batch_at, checkpoint=keep, report=seen.append)
    assert steps == [4, 8]
    assert _same_weights(plain, kept)
    assert [(p.step, p.tokens, p.share) for p in seen] == [(4, 96, 0.4), (8, 192, 0.8)]
    assert all(math.isfinite(p.loss) and p.seconds > 0 for p in seen)


def test_a_snapshot_of_another_seed_is_refused(tiny: Any, batch_at: Any) -> None:
    snapshot = _train(tiny(), _settings(2), batch_at).snapshot
    with pytest.raises(UsageError, match="seed 3, not 4"):
        _train(tiny(), _settings(4), batch_at, resume=snapshot, seed=4)


class Line(nn.Module):
    """y = w x of a batch of named arrays, told of the progress of its training."""

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
        return ((batch["x"] @ self.weight - batch["y"]) ** 2).mean() + 0.1 * torch.randn(()) * self.weight.sum()


def test_a_model_of_named_arrays_is_told_of_its_progress_also_after_an_interruption() -> None:
    def named(step: int) -> dict[str, Any]:
        x = np.random.default_rng(step).normal(size=(4, 3)).astype(np.float32)
        return {"x": x, "y": x.sum(1)}

    settings, whole, parts = _settings(10), Line(), Line()
    result = _train(whole, settings, named)
    assert whole.shares == [(step + 1) / 10 for step in range(10)]
    assert len(whole.observed) == 10
    assert whole.observed[-1] == float(whole.weight.detach().sum()), "after the step, not before"
    paused = _train(parts, settings, named, until=4)
    resumed = _train(parts, settings, named, resume=paused.snapshot)
    assert torch.equal(parts.weight, whole.weight)
    assert resumed.curve == result.curve
    assert parts.shares == whole.shares


# Budgets


@pytest.mark.parametrize(
    ("budget", "steps"),
    [
        (Budget(steps=7), 7),
        (Budget(tokens=TOKENS), 1),
        (Budget(tokens=TOKENS * 5 - 1), 4),
        (Budget(tokens=TOKENS * 5, steps=3), 3),
        (Budget(tokens=TOKENS * 2, steps=3, seconds=600.0), 2),
    ],
)
def test_the_first_limit_ends_it(tiny: Any, batch_at: Any, budget: Budget, steps: int) -> None:
    result = _train(tiny(), _settings(budget=budget), batch_at)
    assert (result.state, result.steps, result.tokens) == ("finished", steps, steps * TOKENS)


def test_a_budget_in_seconds(tiny: Any, batch_at: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = itertools.count()
    monkeypatch.setattr(time, "monotonic", lambda: next(clock) / 100)
    shares: list[float] = []
    settings = _settings(budget=Budget(seconds=1.0), report_every=1)
    result = _train(tiny(), settings, batch_at, report=lambda progress: shares.append(progress.share))
    assert result.state == "finished"
    assert 10 < result.steps < 60
    assert shares == sorted(shares)
    assert shares[-1] > 0.9


@pytest.mark.parametrize(("flops", "steps"), [(70.0, 7), (69.9, 6), (10.0, 1)])
def test_a_budget_in_flops_is_never_exceeded(tiny: Any, batch_at: Any, flops: float, steps: int) -> None:
    settings = _settings(budget=Budget(flops=flops))
    result = _train(tiny(), settings, batch_at, flops_per_step=10.0)
    assert (result.state, result.steps, result.snapshot.cursor.flops) == ("finished", steps, 10.0 * steps)


def test_flops_are_shared_out_as_steps_are_and_dearer_steps_leave_room_for_fewer(tiny: Any, batch_at: Any) -> None:
    in_steps, in_flops, model = tiny(), tiny(), tiny()
    settings = _settings(budget=Budget(flops=120.0))
    _train(in_steps, _settings(12), batch_at)
    _train(in_flops, settings, batch_at, flops_per_step=10.0)
    assert _same_weights(in_steps, in_flops)
    paused = _train(model, settings, batch_at, flops_per_step=10.0, until_share=0.5)
    assert (paused.state, paused.steps) == ("paused", 6)
    result = _train(model, settings, batch_at, flops_per_step=20.0, resume=paused.snapshot)
    assert (result.steps, result.snapshot.cursor.flops) == (9, 120.0)


def test_a_budget_below_one_step_or_batch(tiny: Any, batch_at: Any) -> None:
    for flops in (0.0, 10.1):
        with pytest.raises(UsageError, match="less than one step"):
            _train(tiny(), _settings(budget=Budget(flops=10.0)), batch_at, flops_per_step=flops)
    with pytest.raises(UsageError, match="5 tokens is less than one batch of 24"):
        _train(tiny(), _settings(budget=Budget(tokens=5)), batch_at)


# Segments


STEPS = 12


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
    settings = _settings(STEPS, optimizer=optimizer)
    whole, parts = tiny(), tiny()
    expected = _train(whole, settings, batch_at)
    snapshot = None
    for border in borders:
        result = _train(parts, settings, batch_at, resume=snapshot, until=border, changed=changed)
        assert (result.state, result.steps, result.tokens) == ("paused", border, border * TOKENS)
        snapshot = result.snapshot
    result = _train(parts, settings, batch_at, resume=snapshot, changed=changed)
    assert (result.state, result.steps) == ("finished", STEPS)
    assert result.curve == expected.curve
    assert result.final_loss == expected.final_loss
    assert _same_weights(whole, parts)
    found, wanted = result.snapshot.optimizer, expected.snapshot.optimizer
    assert found.keys() == wanted.keys()
    assert all(_equal(found[name], wanted[name]) for name in wanted)


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
    assert (result.steps, result.state) == (first, "finished" if first == 7 else "paused"), (
        "a border at the end is none"
    )


def test_a_share_of_seconds_is_one_of_the_clock(tiny: Any, batch_at: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = itertools.count()
    monkeypatch.setattr("evodevo.training.loop.time.monotonic", lambda: next(ticks) * 0.25)
    model, settings = tiny(), _settings(budget=Budget(seconds=40.0))
    first = _train(model, settings, batch_at, until_share=0.5)
    assert first.state == "paused"
    assert 20 <= first.seconds < 23
    second = _train(model, settings, batch_at, resume=first.snapshot)
    assert second.state == "finished"
    assert 40 <= second.seconds < 43


def _edit(model: nn.Module, added: str = "child") -> None:
    """One part goes, another one comes."""
    del model.unused
    model.add_module(added, nn.Linear(8, 8))


def test_whoever_is_left_keeps_its_moments_to_the_bit(tiny: Any, batch_at: Any) -> None:
    model = tiny()
    model.unused.weight.grad = None
    extra = {"loss_function": lambda one, batch: one.loss(batch) + _sum(one.unused)}
    paused = _train(model, _settings(STEPS), batch_at, until=5, **extra)
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
    model.norm = nn.LayerNorm(9)
    reshaped = optimizers.build(model, OptimizerSettings())
    with pytest.raises(UsageError, match=r"'norm.weight' does not fit"):
        optimizers.load_state(model, reshaped, paused.snapshot.optimizer, changed=True)


def test_the_newborn_learns_and_counts_its_own_steps(tiny: Any, batch_at: Any) -> None:
    """Against the same training with an optimiser that was never taken apart: one group more, nothing else."""
    model = tiny(dropout=0.0)
    paused = _train(model, _settings(STEPS), batch_at, until=5)
    torch.manual_seed(0)
    _edit(model)
    born = {name: one.detach().clone() for name, one in model.child.named_parameters()}
    result = _train(
        model,
        _settings(STEPS),
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


# Going wrong


def _loss_that(change: Callable[[Tensor, int], Tensor]) -> Any:
    steps = itertools.count()
    return lambda model, batch: change(model.loss(batch), next(steps))


def test_a_loss_that_is_not_finite_is_a_state_and_the_last_good_weights_stay(tiny: Any, batch_at: Any) -> None:
    for bad in (math.nan, math.inf):
        broken, good = tiny(), tiny()
        poison = _loss_that(lambda loss, step, bad=bad: loss * bad if step == 6 else loss)  # type: ignore[misc]
        result = _train(broken, _settings(20), batch_at, loss_function=poison)
        assert (result.state, result.steps) == ("nan", 6)
        assert "loss of step 7" in result.reason
        assert len(result.curve) == 6
        stopped = _train(good, _settings(20, report_every=6), batch_at, report=lambda progress: False)
        assert stopped.steps == 6
        assert _same_weights(broken, good)
    # The square root of nothing has an infinite slope: the loss is finite, its gradient is not.
    poison = _loss_that(lambda loss, step: loss + (loss - loss).sqrt() if step == 2 else loss)
    result = _train(tiny(), _settings(5), batch_at, loss_function=poison)
    assert (result.state, result.steps) == ("nan", 2)
    assert "gradient of step 3" in result.reason


def test_a_loss_over_the_bound_diverges_after_the_warm_up_only_and_not_by_one_spike(tiny: Any, batch_at: Any) -> None:
    scaled, bound = _loss_that(lambda loss, step: loss * 10), math.log(11)
    result = _train(tiny(), _settings(20), batch_at, loss_function=scaled, uniform_loss=bound)
    assert (result.state, result.steps) == ("diverged", 6)  # the warm-up is five steps
    assert "over the bound 3.597" in result.reason
    assert _train(tiny(), _settings(20), batch_at, loss_function=scaled).state == "finished"
    spike = _loss_that(lambda loss, step: loss + 5 if step == 10 else loss)
    result = _train(tiny(), _settings(20, divergence=3.2), batch_at, loss_function=spike, uniform_loss=bound)
    assert result.curve[10][1] > 3.2 * bound
    assert result.state == "finished"
    exploding = OptimizerSettings(learning_rate=1e4, warmup=0.01, clip=1e9)
    result = _train(tiny(), _settings(200, optimizer=exploding), batch_at, uniform_loss=bound)
    assert result.state in ("diverged", "nan")
    assert result.steps < 200


def test_bfloat16_autocast_learns(tiny: Any, batch_at: Any) -> None:
    result = _train(tiny(dropout=0.0), _settings(60, precision="bfloat16"), batch_at)
    assert result.curve[-1][1] < result.curve[0][1]
    model = tiny()
    dtypes: set[torch.dtype] = set()
    model.layers[0].register_forward_hook(lambda module, inputs, output: dtypes.add(output.dtype))
    _train(model, _settings(1, precision="bfloat16"), batch_at)
    assert dtypes == {torch.bfloat16}
    assert model.layers[0].weight.dtype == torch.float32


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_cuda_trains_like_the_cpu_and_resumes(tiny: Any, batch_at: Any) -> None:
    host, device = tiny(dropout=0.0), tiny(dropout=0.0)
    expected = _train(host, _settings(30), batch_at)
    result = train(
        device,
        TrainingSettings(budget=Budget(steps=30), device="cuda", optimizer=OptimizerSettings(warmup=0.25)),
        batch_at=batch_at,
        tokens_per_step=TOKENS,
        seed=3,
    )
    assert np.allclose(result.curve, expected.curve, rtol=1e-3)


# The curve


@settings(max_examples=10, deadline=None)
@given(st.integers(1, 3000))
def test_a_curve_is_short_and_keeps_the_mean(steps: int) -> None:
    losses = [math.sin(i) + i / 100 for i in range(steps)]
    curve = LossCurve()
    for index, loss in enumerate(losses):
        curve = curve.add(index + 1, loss)
    points = curve.complete(steps)
    assert len(points) <= MAX_CURVE_POINTS
    assert points[-1][0] == steps
    assert [tokens for tokens, _ in points] == sorted({tokens for tokens, _ in points})
    widths = np.diff([0, *(tokens for tokens, _ in points)])
    assert sum(w * loss for w, (_, loss) in zip(widths, points, strict=True)) / steps == pytest.approx(np.mean(losses))

"""Laws of the gates over modules, against naive references (docs/spec/architect_thyself.md#gates)."""

from __future__ import annotations

import math
from typing import get_args

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F

from evodevo.module_zoo.router.gates import LEAST_ALPHA, MOST_ALPHA, SIMPLEX, ModuleGate, gumbel_noise
from evodevo.module_zoo.spec import Gate

GATES: tuple[Gate, ...] = get_args(Gate)
SPARSE: dict[Gate, float] = {"sparsemax": 2.0, "entmax15": 1.5, "entmax": 1.5}


def drawn(seed: int, count: int, scale: float = 1.0, dtype: torch.dtype = torch.float64) -> Tensor:
    source = torch.Generator().manual_seed(seed)
    return (torch.randn(3, 2, count, generator=source, dtype=torch.float64) * scale).to(dtype)


def reference(point: list[float], alpha: float) -> list[float]:
    """alpha-entmax: p = [(alpha - 1) x - t]_+ ^ (1 / (alpha - 1)), t by plain bisection (Peters et al. 2019)."""
    scaled = [(alpha - 1) * x for x in point]
    low, high = max(scaled) - 1, max(scaled)
    for _ in range(200):
        middle = (low + high) / 2
        total = sum(max(x - middle, 0.0) ** (1 / (alpha - 1)) for x in scaled)
        low, high = (middle, high) if total >= 1 else (low, middle)
    return [max(x - low, 0.0) ** (1 / (alpha - 1)) for x in scaled]


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    count=st.integers(1, 12),
    scale=st.sampled_from([0.0, 0.1, 1.0, 30.0, 1e4]),
    kind=st.sampled_from(GATES),
    dtype=st.sampled_from([torch.float32, torch.bfloat16, torch.float16, torch.float64]),
    training=st.booleans(),
)
def test_weights_are_a_simplex_and_zero_where_illegal(
    seed: int, count: int, scale: float, kind: Gate, dtype: torch.dtype, training: bool
) -> None:
    logits = drawn(seed, count, scale, dtype).clamp(-6e4, 6e4).requires_grad_()
    legal = torch.rand(3, 1, count, generator=torch.Generator().manual_seed(seed + 1)) < 0.6
    legal[0] = False
    gate = ModuleGate(kind).train(training)
    weights = gate(logits, legal)
    assert weights.dtype == torch.promote_types(dtype, torch.float32)
    assert (weights >= 0).all()
    assert (weights.masked_select(~legal) == 0).all()
    alive = legal.any(-1).to(weights.dtype).expand(3, 2)
    if kind in SIMPLEX:
        torch.testing.assert_close(weights.sum(-1), alive, atol=1e-5, rtol=0)
    else:
        assert (weights.sum(-1) <= 1 + 1e-5).all()
    (weights * torch.linspace(-1, 1, count)).sum().backward()
    assert logits.grad.isfinite().all()
    assert (logits.grad.masked_select(~legal) == 0).all()
    for parameter in gate.parameters():
        assert parameter.grad.isfinite().all()


@pytest.mark.parametrize("kind", GATES)
def test_masks_of_minus_infinity_and_order_are_nobodys_business(kind: Gate) -> None:
    gate, any_logits, order = ModuleGate(kind).eval(), drawn(2, 7, 2.0), torch.randperm(7)
    torch.testing.assert_close(gate(any_logits[..., order]), gate(any_logits)[..., order])
    logits = drawn(1, 5, dtype=torch.float32)
    legal = torch.tensor([True, False, True, True, False])
    without = ModuleGate(kind).eval()(logits[..., legal])
    spoilt = logits.masked_fill(~legal, -math.inf).requires_grad_()
    weights = ModuleGate(kind).eval()(spoilt, legal)
    torch.testing.assert_close(weights[..., legal], without)
    weights.square().sum().backward()
    assert spoilt.grad.isfinite().all()


def assert_entmax(gate: ModuleGate, logits: Tensor, alpha: float) -> Tensor:
    weights = gate(logits)
    for point, got in zip(logits.flatten(0, 1).tolist(), weights.flatten(0, 1).tolist(), strict=True):
        np.testing.assert_allclose(got, reference(point, alpha), atol=1e-6)
    return weights


@pytest.mark.parametrize("kind", SPARSE)
def test_sparse_gates_are_what_they_say(kind: Gate) -> None:
    assert (assert_entmax(ModuleGate(kind), drawn(3, 6, 1.5), SPARSE[kind]) == 0).any()


@settings(max_examples=15, deadline=None)
@given(alpha=st.floats(1.05, 2.0), seed=st.integers(0, 1000), count=st.integers(1, 9), scale=st.floats(0.1, 20))
def test_entmax_at_any_alpha(alpha: float, seed: int, count: int, scale: float) -> None:
    gate = ModuleGate("entmax")
    gate.raw_alpha.data = torch.tensor(math.log(math.expm1(alpha - 1)), dtype=torch.float64)
    assert_entmax(gate, drawn(seed, count, scale), alpha)


def test_the_gradient_of_alpha_is_that_of_differences() -> None:
    gate, logits, direction = ModuleGate("entmax").double(), drawn(4, 6, 1.5), torch.linspace(-1, 1, 6).double()
    (gate(logits) * direction).sum().backward()
    values = []
    for shift in (1e-5, -1e-5):
        moved = ModuleGate("entmax").double()
        moved.raw_alpha.data += shift
        values.append((moved(logits) * direction).sum().item())
    assert float(gate.raw_alpha.grad) == pytest.approx((values[0] - values[1]) / 2e-5, rel=1e-4)


@pytest.mark.parametrize(("raw", "alpha"), [(-50.0, LEAST_ALPHA), (50.0, MOST_ALPHA)])
def test_alpha_keeps_within_its_bounds_and_finds_back(raw: float, alpha: float) -> None:
    gate = ModuleGate("entmax")
    gate.raw_alpha.data.fill_(raw)
    assert gate.alpha.item() == pytest.approx(alpha)
    logits = drawn(5, 6, 3.0, torch.float32).requires_grad_()
    (gate(logits) * torch.linspace(-1, 1, 6)).sum().backward()
    for tensor in (logits, gate.raw_alpha):
        assert tensor.grad.isfinite().all()
    if raw > 0:
        assert gate.raw_alpha.grad != 0


def test_relu_is_divided_by_its_sum_and_silence_is_silence() -> None:
    gate = ModuleGate("relu")
    torch.testing.assert_close(gate(torch.tensor([3.0, -1.0, 1.0])), torch.tensor([0.75, 0.0, 0.25]))
    quiet = torch.tensor([-3.0, -1.0], requires_grad=True)
    assert (gate(quiet) == 0).all()
    # Near silence a gradient of 1 / sum would explode.
    whisper = torch.tensor([1e-30, 2e-30, -1.0], requires_grad=True)
    gate(whisper)[0].backward()
    assert whisper.grad.abs().max() <= 1.1e6


def test_gumbel_draws_from_the_softmax_while_training() -> None:
    logits = torch.tensor([1.0, 0.0, -1.0])
    gate = ModuleGate("gumbel")
    torch.testing.assert_close(gate.eval()(logits), logits.softmax(-1))
    torch.manual_seed(0)
    many = gate.train()(logits.expand(20_000, -1))
    # Whoever is largest has the largest logit plus noise: the Gumbel-max trick.
    share = F.one_hot(many.argmax(-1), 3).float().mean(0)
    torch.testing.assert_close(share, logits.softmax(-1), atol=0.015, rtol=0)
    torch.manual_seed(0)
    torch.testing.assert_close(gate(logits.expand(20_000, -1)), many)
    torch.manual_seed(1)
    noise = gumbel_noise(torch.empty(200_000))
    assert float(noise.mean()) == pytest.approx(0.5772, abs=0.01)
    assert float(noise.var()) == pytest.approx(math.pi**2 / 6, abs=0.03)
    assert noise.isfinite().all()


@pytest.mark.parametrize("kind", GATES)
def test_lost_logits_give_lost_weights_and_no_exception(kind: Gate) -> None:
    """A training that is lost is seen by its loss; nothing may raise before."""
    logits = drawn(0, 4)
    logits[1, 0, 2] = math.nan
    weights = ModuleGate(kind).eval()(logits)
    assert weights[1, 0].isnan().any()
    lost = torch.zeros(3, 2, dtype=torch.bool)
    lost[1, 0] = True
    torch.testing.assert_close(weights[~lost], ModuleGate(kind).eval()(drawn(0, 4)[~lost]))

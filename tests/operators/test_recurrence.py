"""The chunked scan against the loop over time, its gradients, and gates that break careless arithmetic."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from evodevo.operators.build import build_operator
from evodevo.operators.chunk_states import states_before_chunks
from evodevo.operators.classes import OPERATORS
from evodevo.operators.recurrence import scan
from evodevo.operators.spec import Dimensions


def loop(
    value: Tensor, write: Tensor, read: Tensor, log_decay: Tensor | None, initial: Tensor | None
) -> tuple[Tensor, Tensor]:
    """S_t = α_t S_{t-1} + B_t ⊗ V_t; y_t = C_tᵀ S_t, one head at a time."""
    batch, tokens, heads, size = value.shape
    states = write.shape[3]
    after, outputs = [], []
    for b in range(batch):
        for h in range(heads):
            g = h if write.shape[2] > 1 else 0
            state = value.new_zeros(states, size) if initial is None else initial[b, h]
            ys = []
            for t in range(tokens):
                alpha = 1.0 if log_decay is None else torch.exp(log_decay[b, t, h])
                state = alpha * state + torch.outer(write[b, t, g], value[b, t, h])
                ys.append(read[b, t, g] @ state)
            outputs.append(torch.stack(ys))
            after.append(state)
    y = torch.stack(outputs).reshape(batch, heads, tokens, size).transpose(1, 2)
    return y, torch.stack(after).reshape(batch, heads, states, size)


def inputs(tokens: int, groups: int, *, decay: float = 0.5, dtype: torch.dtype = torch.float64) -> list[Tensor]:
    source = torch.Generator().manual_seed(tokens + groups)
    batch, heads, size, states = 2, 3, 4, 5

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=source, dtype=torch.float64).to(dtype)

    log_decay = -decay * torch.rand(batch, tokens, heads, generator=source, dtype=torch.float64).to(dtype)
    return [
        normal(batch, tokens, heads, size),
        normal(batch, tokens, groups, states),
        normal(batch, tokens, groups, states),
        log_decay,
        normal(batch, heads, states, size),
    ]


@pytest.mark.parametrize("chunk", [1, 4, 32])
@pytest.mark.parametrize("groups", [1, 3])
@pytest.mark.parametrize("tokens", [1, 5, 33])
def test_scan_is_the_loop(tokens: int, groups: int, chunk: int) -> None:
    value, write, read, log_decay, initial = inputs(tokens, groups)
    for decay in (log_decay, None):
        for start in (initial, None):
            y, end = scan(value, write, read, decay, start, chunk=chunk)
            wanted, state = loop(value, write, read, decay, start)
            torch.testing.assert_close(y, wanted, rtol=0, atol=1e-12)
            assert end is not None
            torch.testing.assert_close(end, state, rtol=0, atol=1e-12)


@pytest.mark.parametrize("chunks", [15, 16, 17, 33, 300])
def test_states_pass_over_any_number_of_chunks(chunks: int) -> None:
    """One product up to 16 chunks, spans of chunks above, spans of spans above 256."""
    made = torch.randn(3, chunks, 4, generator=torch.Generator().manual_seed(chunks), dtype=torch.float64)
    log_decay = -torch.rand(3, chunks, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    leaves = [made.requires_grad_(), log_decay.requires_grad_(), made.detach()[:, 0].clone().requires_grad_()]
    for decay, start in ((leaves[1], leaves[2]), (leaves[1], None), (None, leaves[2]), (None, None)):
        state, wanted = torch.zeros_like(leaves[2]) if start is None else start, []
        for k in range(chunks):
            wanted.append(state)
            state = made[:, k] + (state if decay is None else state * decay[:, k, None].exp())
        before, end = states_before_chunks(made, decay, start, final=True)
        assert end is not None
        torch.testing.assert_close(before, torch.stack(wanted, 1), rtol=0, atol=1e-12)
        torch.testing.assert_close(end, state, rtol=0, atol=1e-12)
        used = [made, *(leaf for leaf in (decay, start) if leaf is not None)]
        gradients = [
            torch.autograd.grad(b.square().sum() + e.square().sum(), used)
            for b, e in ((before, end), (torch.stack(wanted, 1), state))
        ]
        for a, b in zip(*gradients, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-10)
    assert states_before_chunks(made, leaves[1], None, final=False)[1] is None


def test_slow_decays_after_fast_ones_keep_their_digits() -> None:
    """Differences of cumulated logs would have an error of 1e-4 here."""
    log_decay = torch.full((1, 16), -0.125)
    log_decay[:, :8] = -640.1
    before, _ = states_before_chunks(torch.ones(1, 16, 1), log_decay, None, final=False)
    wanted = sum(torch.exp(torch.tensor(-0.125 * k, dtype=torch.float64)) for k in range(8))
    assert float(before[0, -1, 0]) == pytest.approx(float(wanted), rel=1e-6)


def test_no_tokens_leave_the_state() -> None:
    value, write, read, log_decay, initial = inputs(4, 1)
    y, end = scan(value[:, :0], write[:, :0], read[:, :0], log_decay[:, :0], initial)
    assert y.shape == (2, 0, 3, 4)
    assert end is initial


@pytest.mark.parametrize("groups", [1, 3])
@pytest.mark.parametrize("tokens", [1, 5])
def test_gradients(tokens: int, groups: int) -> None:
    """Of outputs and of the last state, by every input and by the first state."""
    tensors = [
        tensor[:1, ..., :2].contiguous() if n != 3 else tensor[:1] for n, tensor in enumerate(inputs(tokens, groups))
    ]
    tensors[4] = inputs(tokens, groups)[4][:1, :, :2, :2].contiguous()
    for tensor in tensors:
        tensor.requires_grad_()
    assert torch.autograd.gradcheck(lambda *t: scan(*t, chunk=4), tensors)
    assert torch.autograd.gradcheck(lambda v, w, r, s: scan(v, w, r, None, s, chunk=4), [*tensors[:3], tensors[4]])


@pytest.mark.parametrize("log_alpha", [0.0, -1e-8, -20.0, -88.0, -1e4, "mixed"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_extreme_gates_stay_finite(log_alpha: float | str, dtype: torch.dtype) -> None:
    tensors = inputs(70, 1, dtype=dtype)
    if log_alpha == "mixed":
        choice = torch.randint(5, tensors[3].shape, generator=torch.Generator().manual_seed(0))
        tensors[3] = torch.tensor([0.0, -1e-8, -20.0, -88.0, -1e4])[choice]
    else:
        tensors[3] = torch.full_like(tensors[3], log_alpha)
    for tensor in tensors:
        tensor.requires_grad_()
    y, end = scan(*tensors)
    assert end is not None
    assert y.dtype == dtype
    assert bool(y.isfinite().all())
    assert bool(end.isfinite().all())
    for gradient in torch.autograd.grad(y.float().square().mean() + end.square().mean(), tensors):
        assert bool(gradient.isfinite().all())


@pytest.mark.parametrize("lowest", [-0.01, -0.5, -2.0, -8.0, -20.0])
def test_single_precision_keeps_its_digits(lowest: float) -> None:
    """Down to the bound that ``Decay`` sets, also where a state is forgotten and remembered within one chunk."""
    tensors = inputs(256, 1, dtype=torch.float32)
    kept = torch.rand(tensors[3].shape, generator=torch.Generator().manual_seed(1)) < 0.7
    tensors[3] = torch.where(kept, torch.full_like(tensors[3], -1e-3), lowest)
    y, end = scan(*tensors)
    wanted, state = loop(*(tensor.double() for tensor in tensors))
    assert end is not None
    assert float((y - wanted).norm() / wanted.norm()) < 1e-5
    assert float((end - state).norm() / state.norm()) < 1e-5


@pytest.mark.parametrize("name", ["Rec-1", "Rec-2", "Mamba"])
def test_extreme_weights_stay_finite(name: str) -> None:
    """What training may do to the decay's parameters: nothing it can do makes an output or a gradient infinite."""
    torch.manual_seed(0)
    operator = build_operator(OPERATORS.get(name).spec, Dimensions(width=16, head_size=4))
    decay = operator.groups["decay"]  # type: ignore[index]
    for bias, rate in ((-100.0, 0.0), (100.0, 0.0), (0.0, 20.0), (100.0, 20.0), (-100.0, -20.0)):
        with torch.no_grad():
            decay.bias.fill_(bias)
            decay.log_rate.fill_(rate)
        x = torch.randn(2, 40, 16, requires_grad=True)
        y = operator(x).y
        assert bool(y.isfinite().all()), (bias, rate)
        for gradient in torch.autograd.grad(y.square().mean(), [x, *operator.parameters()]):
            assert bool(gradient.isfinite().all()), (bias, rate)


def test_bfloat16_products_keep_two_digits() -> None:
    """Under autocast the factors of products have 8 bits. Decays and sums of states have more, so that errors do not
    grow with the length: outputs, states and gradients are within 1 % of float64's, gradients by decays within 2 %."""
    tensors = [tensor.requires_grad_() for tensor in inputs(600, 1, decay=0.05, dtype=torch.float32)]
    exact = [tensor.detach().double().requires_grad_() for tensor in tensors]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = scan(*tensors)
    wanted = scan(*exact)
    assert found[0].dtype == torch.float32, "as the values"
    assert found[1] is not None
    assert found[1].dtype == torch.float32
    gradients = []
    for answers, leaves in ((found, tensors), (wanted, exact)):
        assert answers[1] is not None
        gradients.append(torch.autograd.grad(answers[0].square().mean() + answers[1].square().mean(), leaves))
    bounds = [0.01, 0.01, 0.01, 0.01, 0.01, 0.02, 0.01]
    for a, b, bound in zip([*found, *gradients[0]], [*wanted, *gradients[1]], bounds, strict=True):
        assert 1e-5 < float(((a - b).norm() / b.norm()).detach()) < bound, "inexact, and within the bound"


def test_half_precision_and_float64_are_left_alone() -> None:
    """float16 has too small a range for sums of values; float64 is not what autocast acts on."""
    for kind, autocast in ((torch.float32, torch.float16), (torch.float64, torch.bfloat16)):
        tensors = inputs(40, 1, dtype=kind)
        with torch.autocast("cpu", dtype=autocast):
            inside = scan(*tensors)
        for a, b in zip(inside, scan(*tensors), strict=True):
            assert torch.equal(a, b)

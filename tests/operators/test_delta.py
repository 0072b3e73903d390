"""The chunked gated delta rule against the loop over time, its gradients, and what it is for."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from evodevo.operators.delta import delta_scan


def loop(
    value: Tensor, key: Tensor, query: Tensor, log_decay: Tensor, strength: Tensor, initial: Tensor | None
) -> tuple[Tensor, Tensor]:
    """S_t = α_t (I - β_t k_t k_tᵀ) S_{t-1} + β_t k_t v_tᵀ; y_t = S_tᵀ q_t, the matrices written out."""
    batch, tokens, heads, size = value.shape
    after, outputs = [], []
    for b in range(batch):
        for h in range(heads):
            state = value.new_zeros(size, size) if initial is None else initial[b, h]
            ys = []
            for t in range(tokens):
                k, beta, alpha = key[b, t, h], strength[b, t, h], log_decay[b, t, h].exp()
                transition = alpha * (torch.eye(size, dtype=value.dtype) - beta * torch.outer(k, k))
                state = transition @ state + beta * torch.outer(k, value[b, t, h])
                ys.append(state.T @ query[b, t, h])
            outputs.append(torch.stack(ys))
            after.append(state)
    y = torch.stack(outputs).reshape(batch, heads, tokens, size).transpose(1, 2)
    return y, torch.stack(after).reshape(batch, heads, size, size)


def inputs(tokens: int, *, decay: float = 0.5, dtype: torch.dtype = torch.float64) -> list[Tensor]:
    """Values, keys, queries, log decays, strengths, initial state."""
    source = torch.Generator().manual_seed(tokens)
    batch, heads, size = 2, 3, 4

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=source, dtype=torch.float64).to(dtype)

    def uniform() -> Tensor:
        return torch.rand(batch, tokens, heads, generator=source, dtype=torch.float64).to(dtype)

    key = F.normalize(normal(batch, tokens, heads, size), dim=-1)
    rest = (normal(batch, tokens, heads, size), -decay * uniform(), uniform(), normal(batch, heads, size, size))
    return [normal(batch, tokens, heads, size), key, *rest]


@pytest.mark.parametrize("chunk", [1, 4, 32])
@pytest.mark.parametrize("tokens", [1, 5, 33])
def test_scan_is_the_loop(tokens: int, chunk: int) -> None:
    *tensors, initial = inputs(tokens)
    for start in (initial, None):
        y, end = delta_scan(*tensors, start, chunk=chunk)
        wanted, state = loop(*tensors, start)
        torch.testing.assert_close(y, wanted, rtol=0, atol=1e-12)
        assert end is not None
        torch.testing.assert_close(end, state, rtol=0, atol=1e-12)


def test_no_tokens_leave_the_state() -> None:
    *tensors, initial = inputs(4)
    y, end = delta_scan(*(x[:, :0] for x in tensors), initial)
    assert y.shape == (2, 0, 3, 4)
    assert end is initial


def test_gradients_are_those_of_the_loop() -> None:
    tensors = [x.requires_grad_() for x in inputs(7)]

    def gradients(function: object) -> tuple[Tensor, ...]:
        y, end = function(*tensors)  # type: ignore[operator]
        return torch.autograd.grad((y * y).sum() + (end * end).sum(), tensors)

    chunked = gradients(lambda *x: delta_scan(*x, chunk=3))
    for mine, wanted in zip(chunked, gradients(loop), strict=True):
        torch.testing.assert_close(mine, wanted, rtol=0, atol=1e-10)


@pytest.mark.parametrize("decay", [0.0, 1e-8, 20.0, 88.0, 1e4])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_extreme_decays_stay_finite(decay: float, dtype: torch.dtype) -> None:
    tensors = [x.requires_grad_() for x in inputs(33, decay=decay, dtype=dtype)]
    y, end = delta_scan(*tensors, chunk=8)
    assert end is not None
    y.float().sum().backward()
    assert all(torch.isfinite(x).all() for x in (y, end))
    assert all(x.grad is not None and torch.isfinite(x.grad).all() for x in tensors)


def test_a_key_written_twice_holds_its_last_value() -> None:
    """With α = β = 1 and orthonormal keys the state is a table: a write replaces, where a plain recurrence adds."""
    key = torch.eye(4)[[0, 1, 0, 2]].view(1, 4, 1, 4)
    value = torch.arange(16.0).view(1, 4, 1, 4)
    none, full = torch.zeros(1, 4, 1), torch.ones(1, 4, 1)
    _, state = delta_scan(value, key, key, none, full)
    assert state is not None
    torch.testing.assert_close(state[0, 0], torch.stack([value[0, n, 0] for n in (2, 1, 3)] + [torch.zeros(4)]))


def test_scan_is_that_of_transformers() -> None:
    """Qwen3-Next's recurrent form; it scales queries by P^-1/2 itself."""
    reference = pytest.importorskip("transformers.models.qwen3_next.modeling_qwen3_next")
    value, key, query, log_decay, strength, initial = (x.float() for x in inputs(33))
    y, end = delta_scan(value, key, query, log_decay, strength, initial, chunk=8)
    wanted, state = reference.torch_recurrent_gated_delta_rule(
        query * query.shape[-1] ** 0.5, key, value, log_decay, strength, initial, True
    )
    torch.testing.assert_close(y, wanted, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(end, state, rtol=1e-5, atol=1e-5)

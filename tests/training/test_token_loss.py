"""The loss in chunks against the plain one, and the memory that it says it takes against what is counted."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F

from evodevo.tasks.base import NO_TARGET
from evodevo.training.live_bytes import LiveBytes
from evodevo.training.token_loss import (
    CHUNK_ENTRIES,
    WHOLE_ENTRIES,
    token_loss,
    tokens_at_once,
    transient_bytes,
)

WIDTH, VOCABULARY = 8, 23


def drawn(tokens: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor, Tensor]:
    source = torch.Generator().manual_seed(seed)
    hidden = torch.randn(tokens, WIDTH, generator=source, dtype=dtype).requires_grad_()
    weight = torch.randn(VOCABULARY, WIDTH, generator=source, dtype=dtype).requires_grad_()
    target = torch.randint(VOCABULARY, (tokens,), generator=source)
    return hidden, weight, target


def plain(hidden: Tensor, weight: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(F.linear(hidden, weight), target, ignore_index=NO_TARGET)


@settings(max_examples=25, deadline=None)
@given(tokens=st.integers(1, 40), chunk=st.integers(1, 45), without=st.floats(0, 0.8), seed=st.integers(0, 99))
def test_it_is_the_plain_loss_with_its_gradients(tokens: int, chunk: int, without: float, seed: int) -> None:
    hidden, weight, target = drawn(tokens, seed)
    target[: int(without * tokens)] = NO_TARGET
    wanted = plain(hidden, weight, target)
    found = token_loss(hidden.view(1, tokens, WIDTH), weight, target.view(1, tokens), chunk)
    torch.testing.assert_close(found, wanted, rtol=1e-10, atol=1e-10)
    # Through an outer factor, as that of accumulated parts.
    for a, b in zip(
        torch.autograd.grad(found / 3, [hidden, weight]), torch.autograd.grad(wanted / 3, [hidden, weight]), strict=True
    ):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-10)


def test_one_chunk_is_the_plain_loss_to_the_bit() -> None:
    hidden, weight, target = drawn(40, dtype=torch.float32)
    wanted = plain(hidden, weight, target)
    for at_once in (40, 1000, "all", "auto"):
        found = token_loss(hidden, weight, target, at_once)
        assert torch.equal(found, wanted)
        assert torch.equal(torch.autograd.grad(found, weight)[0], torch.autograd.grad(wanted, weight, None, True)[0])


def test_without_a_target_it_is_nan_and_frozen_inputs_get_no_gradient() -> None:
    hidden, weight, target = drawn(6)
    assert token_loss(hidden, weight, torch.full_like(target, NO_TARGET), 2).isnan()
    found = token_loss(hidden, weight.detach(), target, 2)
    wanted = torch.autograd.grad(plain(hidden, weight, target), hidden)[0]
    torch.testing.assert_close(torch.autograd.grad(found, hidden)[0], wanted, rtol=1e-10, atol=1e-12)
    tied = torch.randn(VOCABULARY, WIDTH, dtype=torch.float64, requires_grad=True)
    gradients = [
        torch.autograd.grad(loss(F.embedding(target, tied), tied, target), tied)[0]
        for loss in (plain, lambda *given: token_loss(*given, 4))
    ]
    torch.testing.assert_close(*gradients, rtol=1e-10, atol=1e-12)


def test_under_autocast_products_are_half_and_sums_are_not() -> None:
    """As near to the exact gradient of the weight as the plain loss is, which sums over all tokens in one product."""
    hidden, weight, target = drawn(512, dtype=torch.float32)
    exact = torch.autograd.grad(plain(hidden.double(), weight.double(), target), weight)[0]
    errors = []
    for at_once in ("all", 8):
        with torch.autocast("cpu", torch.bfloat16):
            loss = token_loss(hidden, weight, target, at_once)
        assert loss.dtype == torch.float32
        found = torch.autograd.grad(loss, weight)[0]
        assert found.dtype == torch.float32
        errors.append(float((found - exact).norm() / exact.norm()))
    assert errors[1] < 1.1 * errors[0] < 0.01


def saved_bytes(at_once: Any, tokens: int = 256) -> int:
    """What the graph of the loss saves, hooks of autograd say."""
    hidden, weight, target = drawn(tokens, dtype=torch.float32)
    kept: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        token_loss(hidden, weight, target, at_once)
    return sum(kept.values())


def test_what_is_saved_for_the_backward_pass_does_not_depend_on_the_number_of_chunks() -> None:
    tokens = 256
    given = 4 * (tokens * WIDTH + VOCABULARY * WIDTH) + 8 * tokens  # hidden vectors, weight, targets
    assert {saved_bytes(size, tokens) for size in (1, 16, 128)} == {given + 4 * tokens}
    assert saved_bytes("all", tokens) >= 4 * tokens * VOCABULARY


@pytest.mark.parametrize("autocast", [False, True])
def test_the_peak_is_what_is_stated(autocast: bool) -> None:
    tokens, width, vocabulary = 1024, 16, 512
    hidden = torch.randn(tokens, width, requires_grad=True)
    weight = torch.randn(vocabulary, width, requires_grad=True)
    target = torch.randint(vocabulary, (tokens,))

    def peak(at_once: Any) -> int:
        with LiveBytes() as counted:
            with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
                loss = token_loss(hidden, weight, target, at_once)
            torch.autograd.grad(loss, [hidden, weight])
        return counted.peak

    gradients = 4 * (tokens * width + vocabulary * width) + 4 * tokens
    for at_once in (32, 128, 256):
        # A few vectors over all tokens, such as which have a target, are not stated.
        assert peak(at_once) <= gradients + transient_bytes(at_once, width, vocabulary) + 32 * tokens
    assert peak(32) < peak("all") / 8


def test_it_can_be_counted_without_computing() -> None:
    hidden, weight, target = (tensor.detach().to("meta").requires_grad_(tensor.requires_grad) for tensor in drawn(64))
    with LiveBytes() as counted:
        loss = token_loss(hidden, weight, target, 16)
        assert counted.now() <= 8 * 64 + 100, "a number for each token"
    assert [gradient.shape for gradient in torch.autograd.grad(loss, [hidden, weight])] == [hidden.shape, weight.shape]


def test_the_size_of_a_chunk() -> None:
    assert tokens_at_once(1000, 256) == 1000
    assert tokens_at_once(WHOLE_ENTRIES // 256, 256) == WHOLE_ENTRIES // 256
    assert tokens_at_once(WHOLE_ENTRIES // 256 + 1, 256) == CHUNK_ENTRIES // 256
    assert tokens_at_once(262_144, 32_768) == 2048, "the paper's batch"
    assert tokens_at_once(262_144, 32_768, "all") == 262_144
    assert tokens_at_once(262_144, 32_768, 77) == 77
    assert tokens_at_once(50, 10, 77) == 50


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_it_is_the_plain_loss_on_cuda_and_takes_what_is_stated() -> None:
    hidden, weight, target = (tensor.cuda() for tensor in drawn(500))
    hidden, weight = hidden.detach().requires_grad_(), weight.detach().requires_grad_()
    pairs = [
        torch.autograd.grad(loss, [hidden, weight])
        for loss in (token_loss(hidden, weight, target, 64), plain(hidden, weight, target))
    ]
    for a, b in zip(*pairs, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-10)
    tokens, width, vocabulary = 8192, 64, 8192
    hidden = torch.randn(tokens, width, device="cuda", requires_grad=True)
    weight = torch.randn(vocabulary, width, device="cuda", requires_grad=True)
    target = torch.randint(vocabulary, (tokens,), device="cuda")
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    token_loss(hidden, weight, target, 256).backward()
    taken = torch.cuda.max_memory_allocated() - before
    gradients = 4 * (tokens * width + vocabulary * width) + 4 * tokens
    # Beside what is stated the allocator rounds up, and cuBLAS has a workspace.
    assert taken <= gradients + transient_bytes(256, width, vocabulary) + 32 * tokens + 2**26

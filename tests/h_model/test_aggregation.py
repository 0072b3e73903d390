"""Aggregation against a naive loop over samples, targets, positions and sources (H-Model eqs. 1-3)."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from evodevo.h_model.aggregations.attention_model import SourceAttention
from evodevo.h_model.aggregations.base import AggregationSizes, Normaliser
from evodevo.h_model.aggregations.sum_model import normalised_sum

NORMALISERS: tuple[Normaliser, ...] = ("sum", "count", "softmax")


def drawn(seed: int, *, per_position: bool, masked: bool) -> tuple[Tensor, Tensor, Tensor | None]:
    source = torch.Generator().manual_seed(seed)
    batch, sources, targets, length, width = 2, 3, 4, 5, 6
    messages = torch.randn(batch, sources, length, width, generator=source, dtype=torch.float64)
    positions = length if per_position else 1
    weights = torch.rand(batch, positions, sources, targets, generator=source, dtype=torch.float64)
    weights = weights * (torch.rand(weights.shape, generator=source) < 0.8)
    masks = torch.rand(batch, sources, length, generator=source) < 0.7 if masked else None
    return (messages if masks is None else messages * masks.unsqueeze(-1)), weights, masks


def naive(messages: Tensor, weights: Tensor, masks: Tensor | None, normaliser: Normaliser) -> Tensor:
    batch, sources, length, width = messages.shape
    heard = torch.zeros(batch, weights.shape[-1], length, width, dtype=messages.dtype)
    for b in range(batch):
        for s in range(length):
            here = weights[b, s if weights.shape[1] > 1 else 0]
            for j in range(weights.shape[-1]):
                real = [i for i in range(sources) if masks is None or masks[b, i, s]]
                total = sum((here[i, j] * messages[b, i, s] for i in real), torch.zeros(width, dtype=messages.dtype))
                inflow = sum(float(here[i, j]) for i in real)
                if normaliser == "sum":
                    total = total / max(1.0, inflow)
                elif normaliser == "count":
                    total = total / max(1, sum(float(here[i, j]) > 0.5 for i in real))
                else:
                    total = total / inflow if inflow else total
                heard[b, j, s] = total
    return heard


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("per_position", [False, True])
@pytest.mark.parametrize("normaliser", NORMALISERS)
def test_equals_the_naive_loop(normaliser: Normaliser, per_position: bool, masked: bool) -> None:
    messages, weights, masks = drawn(7, per_position=per_position, masked=masked)
    expected = naive(messages, weights, masks, normaliser)
    torch.testing.assert_close(normalised_sum(messages, weights, masks, normaliser), expected)


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10_000), per_position=st.booleans(), masked=st.booleans())
def test_no_state_is_longer_than_the_longest_message(seed: int, per_position: bool, masked: bool) -> None:
    messages, weights, masks = drawn(seed, per_position=per_position, masked=masked)
    longest = messages.norm(dim=-1).amax(1)[:, None]
    for normaliser in ("sum", "softmax"):
        heard = normalised_sum(messages, weights, masks, normaliser)
        assert (heard.norm(dim=-1) <= longest + 1e-9).all()


@pytest.mark.parametrize(("per_position", "masked"), [(False, True), (True, False), (True, True)])
def test_attention_without_query_and_source_is_the_weighted_mean_times_the_inflow(
    per_position: bool, masked: bool
) -> None:
    messages, weights, masks = drawn(5, per_position=per_position, masked=masked)
    attention = SourceAttention(AggregationSizes(6, 2, 3, 4, per_position)).double()
    torch.nn.init.zeros_(attention.hidden_source)
    heard = attention(messages, weights, masks, of_input=False)
    mean = naive(messages, weights, masks, "softmax")
    local = weights if masks is None else weights * masks.transpose(1, 2).unsqueeze(-1)
    inflow = local.sum(-2).clamp(max=1).transpose(1, 2).unsqueeze(-1)
    torch.testing.assert_close(heard, mean * inflow)


def test_attention_tells_sources_apart_and_hears_nobody_at_weight_zero() -> None:
    messages, weights, _ = drawn(9, per_position=False, masked=False)
    weights[..., 2] = 0
    weights[..., 1, :] = 0
    attention = SourceAttention(AggregationSizes(6, 2, 3, 4, False)).double()
    torch.nn.init.normal_(attention.query)
    heard = attention(messages, weights, None, of_input=False)
    assert (heard[:, 2] == 0).all()
    louder = messages.clone()
    louder[:, 1] += 100
    torch.testing.assert_close(attention(louder, weights, None, of_input=False), heard)
    same = messages[:, :1].expand(-1, 3, -1, -1).contiguous()
    uniform = torch.ones_like(weights)
    named = attention(same, uniform, None, of_input=False)
    assert not torch.allclose(named, same[:, :1].expand_as(named))


@pytest.mark.parametrize("per_position", [False, True])
def test_gradients_are_finite_where_weights_are_zero(per_position: bool) -> None:
    messages, weights, masks = drawn(2, per_position=per_position, masked=True)
    weights = (weights * 0).requires_grad_()
    attention = SourceAttention(AggregationSizes(6, 2, 3, 4, per_position)).double()
    for normaliser in NORMALISERS:
        normalised_sum(messages, weights, masks, normaliser).square().sum().backward()
    attention(messages, weights, masks, of_input=False).square().sum().backward()
    assert weights.grad.isfinite().all()


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10_000), per_position=st.booleans(), masked=st.booleans(), exponent=st.integers(-30, 0))
def test_the_mean_is_one_however_small_the_weights_are(
    seed: int, per_position: bool, masked: bool, exponent: int
) -> None:
    messages, weights, masks = drawn(seed, per_position=per_position, masked=masked)
    small = normalised_sum(messages, weights * 10.0**exponent, masks, "softmax")
    torch.testing.assert_close(small, normalised_sum(messages, weights, masks, "softmax"))


@pytest.mark.parametrize("per_position", [False, True])
def test_without_weights_the_gradient_is_no_larger_than_the_messages(per_position: bool) -> None:
    messages, weights, masks = drawn(2, per_position=per_position, masked=True)
    weights = (weights * 0).requires_grad_()
    normalised_sum(messages, weights, masks, "softmax").sum().backward()
    assert weights.grad is not None
    assert weights.grad.abs().max() <= messages.abs().sum()

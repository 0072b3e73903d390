"""The attention kernel against torch's own, with each of its fast paths, and what positions must not do."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from evodevo.operators.attention import Attention, Rotary, attend, reads_groups, visibility
from evodevo.operators.build import build_operator
from evodevo.operators.classes import OPERATORS
from evodevo.operators.compile import compile_operator
from evodevo.operators.spec import Dimensions

DIMS = Dimensions(width=32, head_size=8, band=5)
ATTENTION = ["SA-1", "SA-2", "SA-3", "SA-4", "SA-1-DiffV2"]


def heads(count: int, tokens: int, *, size: int = 8, seed: int = 0) -> Tensor:
    source = torch.Generator().manual_seed(seed)
    return torch.randn(2, count, tokens, size, generator=source, dtype=torch.float64)


@pytest.mark.parametrize("groups", [4, 2, 1])
@pytest.mark.parametrize(("tokens", "past"), [(7, 0), (1, 0), (1, 9), (4, 9)])
def test_softmax_is_torch_attention(groups: int, tokens: int, past: int) -> None:
    query, key, value = heads(4, tokens), heads(groups, past + tokens, seed=1), heads(groups, past + tokens, seed=2)
    mask = torch.ones(tokens, past + tokens, dtype=torch.bool).tril(past)
    wanted = F.scaled_dot_product_attention(query, key, value, attn_mask=mask, enable_gqa=True)
    for valid in (None, torch.ones(2, past + tokens, dtype=torch.bool)):
        y = attend(query, key, value, valid=valid, band=None, nonlinearity=2)
        torch.testing.assert_close(y, wanted, rtol=0, atol=1e-12)
        wide = attend(query, key, value, valid=valid, band=past + tokens, nonlinearity=2)
        torch.testing.assert_close(wide, wanted, rtol=0, atol=1e-12)


@pytest.mark.parametrize("groups", [4, 2, 1])
def test_one_token_is_read_from_a_kernel_that_puts_heads_after_tokens(
    groups: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the fused kernels of an H100 did (torch 2.11): outputs of any strides."""
    arguments = heads(4, 1), heads(groups, 9, seed=1), heads(groups, 9, seed=2)
    wanted, plain = attend(*arguments, valid=None, band=None, nonlinearity=2), F.scaled_dot_product_attention

    def fused(*given: Tensor, **more: object) -> Tensor:
        return plain(*given, **more).transpose(1, 2).contiguous().transpose(1, 2)

    monkeypatch.setattr(F, "scaled_dot_product_attention", fused)
    assert torch.equal(attend(*arguments, valid=None, band=None, nonlinearity=2), wanted)


@pytest.mark.parametrize("masked", [False, True])
def test_shared_keys_are_read_as_they_are(masked: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Outputs and gradients are those of repeated keys; torch's attention gets the keys without a copy per head."""
    tensors = [heads(4, 7).requires_grad_(), heads(2, 7, seed=1).requires_grad_(), heads(2, 7, seed=2).requires_grad_()]
    valid = torch.arange(7) > torch.tensor([[1], [3]]) if masked else None
    repeated = [x if n == 0 else x.repeat_interleave(2, 1) for n, x in enumerate(tensors)]
    wanted = attend(*repeated, valid=valid, band=None, nonlinearity=2)
    given: list[int] = []

    def watched(query: Tensor, key: Tensor, value: Tensor, **more: object) -> Tensor:
        given.extend([key.shape[1], value.shape[1]])
        return attention(query, key, value, **more)  # type: ignore[arg-type]

    attention = F.scaled_dot_product_attention
    monkeypatch.setattr(F, "scaled_dot_product_attention", watched)
    y = attend(*tensors, valid=valid, band=None, nonlinearity=2)
    assert given == [2, 2]
    torch.testing.assert_close(y, wanted, rtol=0, atol=1e-12)
    for a, b in zip(*(torch.autograd.grad(x.square().sum(), tensors) for x in (y, wanted)), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-12)


def test_groups_are_read_only_where_a_fused_kernel_does() -> None:
    half, single = torch.bfloat16, torch.float32
    assert reads_groups("cpu", single, masked=True)
    assert reads_groups("cpu", half, masked=False)
    assert reads_groups("cuda", half, masked=False)
    assert not reads_groups("cuda", half, masked=True), "would compute all scores"
    assert not reads_groups("cuda", single, masked=False), "would compute all scores"


def test_attention_is_multi_head_attention() -> None:
    """Against ``nn.MultiheadAttention`` where rotations cannot matter: every token is at position 0."""
    torch.manual_seed(0)
    operator = build_operator(OPERATORS.get("SA-1").spec, DIMS).double().requires_grad_(False)
    assert isinstance(operator, Attention)
    operator.rotary = lambda x, positions, end: x  # type: ignore[assignment]
    layer = torch.nn.MultiheadAttention(32, 4, bias=False, batch_first=True, dtype=torch.float64)
    layer.in_proj_weight.data = torch.cat([operator.groups[role].weight for role in ("query", "key", "value")])
    layer.out_proj.weight.data = operator.out
    x = torch.randn(2, 9, 32, dtype=torch.float64)
    mask = torch.nn.Transformer.generate_square_subsequent_mask(9, dtype=torch.float64)
    wanted, _ = layer(x, x, x, attn_mask=mask, need_weights=False)
    torch.testing.assert_close(operator(x).y, wanted, rtol=0, atol=1e-12)


def test_visibility_is_a_band_of_valid_tokens() -> None:
    valid = torch.tensor([[False, False, True, True, True], [True] * 5])
    visible = visibility(3, 5, 2, valid, torch.device("cpu"))
    assert visible.shape == (2, 1, 3, 5)
    assert visible[0, 0].int().tolist() == [[0, 0, 1, 0, 0], [0, 0, 1, 1, 0], [0, 0, 0, 1, 1]]
    assert visible[1, 0].int().tolist() == [[0, 1, 1, 0, 0], [0, 0, 1, 1, 0], [0, 0, 0, 1, 1]]
    nothing = visibility(5, 5, None, torch.zeros(1, 5, dtype=torch.bool), torch.device("cpu"))
    assert torch.equal(nothing[0, 0], torch.eye(5, dtype=torch.bool))  # no empty row: softmax stays finite


@pytest.mark.parametrize("nonlinearity", [1, 2, 3, 4])
def test_gradients(nonlinearity: int) -> None:
    for band, groups in ((None, 2), (3, 1)):
        tensors = [heads(2, 5, size=2)[:1], heads(groups, 6, size=2, seed=1)[:1], heads(groups, 6, size=2, seed=2)[:1]]
        for tensor in tensors:
            tensor.requires_grad_()
        assert torch.autograd.gradcheck(
            lambda q, k, v, b=band: attend(q, k, v, valid=None, band=b, nonlinearity=nonlinearity), tensors
        )


@pytest.mark.parametrize("size", [1.0, 100.0, 1e4])
def test_extreme_scores_stay_finite(size: float) -> None:
    for nonlinearity in (2, 3, 4):
        tensors = [(size * heads(2, 20, seed=n)).float().requires_grad_() for n in range(3)]
        y = attend(*tensors, valid=None, band=None, nonlinearity=nonlinearity)
        assert bool(y.isfinite().all())
        for gradient in torch.autograd.grad(y.mean(), tensors):
            assert bool(gradient.isfinite().all())


@pytest.mark.parametrize("name", ATTENTION)
def test_only_distances_matter(name: str) -> None:
    """Starting to count at 1,000 changes nothing."""
    operator = build_operator(OPERATORS.get(name).spec, DIMS).double().requires_grad_(False)
    x = torch.randn(2, 12, 32, dtype=torch.float64)
    state = operator.initial_state(2, 12, torch.float64, torch.device("cpu"))
    late = operator.initial_state(2, 12, torch.float64, torch.device("cpu")) | {"seen": 1000}
    torch.testing.assert_close(operator(x, state=late).y, operator(x, state=state).y, rtol=0, atol=1e-10)


def test_order_matters() -> None:
    """Rotations do something: attention without them would be blind to the order of earlier tokens."""
    operator = build_operator(OPERATORS.get("SA-1").spec, DIMS).double().requires_grad_(False)
    x = torch.randn(1, 6, 32, dtype=torch.float64)
    swapped = x[:, [1, 0, 2, 3, 4, 5]]
    assert float((operator(x).y[:, -1] - operator(swapped).y[:, -1]).abs().max()) > 1e-3


def test_rotations_keep_lengths_and_compose() -> None:
    rotary, x = Rotary(8), heads(3, 6)
    turned = rotary(x, slice(100, 106))
    torch.testing.assert_close(turned.norm(dim=-1), x.norm(dim=-1))
    rows = torch.arange(100, 106).expand(2, 6)
    assert torch.equal(rotary(x, rows), turned)
    assert torch.equal(rotary(x[:, :, :0], slice(0, 0)), x[:, :, :0])
    q, k = heads(1, 1), heads(1, 1, seed=1)
    near = (rotary(q, slice(7, 8)) * rotary(k, slice(4, 5))).sum(-1)
    far = (rotary(q, slice(507, 508)) * rotary(k, slice(504, 505))).sum(-1)
    torch.testing.assert_close(near, far)


def test_rotations_made_in_inference_mode_can_be_trained_with() -> None:
    rotary = Rotary(8)
    with torch.inference_mode():
        rotary(torch.randn(1, 1, 4, 8), slice(0, 4))
    x = torch.randn(1, 1, 4, 8, requires_grad=True)
    rotary(x, slice(0, 4)).sum().backward()
    assert x.grad is not None


def test_subtraction_weight_of_zero_is_the_plain_class() -> None:
    """DIFF V2 with λ → 0 is attention with the first query head of each pair (docs/spec/star.md#differential-forms)."""
    torch.manual_seed(0)
    double = build_operator(OPERATORS.get("SA-1-DiffV2").spec, DIMS).double().requires_grad_(False)
    plain = build_operator(OPERATORS.get("SA-1").spec, DIMS).double().requires_grad_(False)
    weight = double.groups["query"].weight.view(4, 2, 8, 32)  # type: ignore[index]
    plain.groups["query"].weight.copy_(weight[:, 0].reshape(32, 32))  # type: ignore[index]
    for role in ("key", "value"):
        plain.groups[role].weight.copy_(double.groups[role].weight)  # type: ignore[index]
    plain.out.copy_(double.out)  # type: ignore[operator]
    x = torch.randn(2, 9, 32, dtype=torch.float64)
    x[..., 0] = 1.0
    double.subtract.zero_()  # type: ignore[operator]
    assert float((double(x).y - plain(x).y).abs().max()) > 0.01
    double.subtract[:, 0] = -100.0  # type: ignore[index]
    torch.testing.assert_close(double(x).y, plain(x).y, rtol=0, atol=1e-12)
    # The other way: equal heads and λ = 1 leave nothing.
    double.subtract[:, 0] = 100.0  # type: ignore[index]
    weight[:, 1] = weight[:, 0]
    torch.testing.assert_close(double(x).y, torch.zeros_like(x), rtol=0, atol=1e-12)


def test_pairs_of_heads_share_keys() -> None:
    """With grouped keys, both heads of a pair read the same key head (docs/spec/star.md#differential-forms)."""
    spec = compile_operator((3, 2, 1, 2, 1), None, "v2")
    operator = build_operator(spec, DIMS).double().requires_grad_(False)
    weight = operator.groups["query"].weight.view(4, 2, 8, 32)  # type: ignore[index]
    weight[:, 1] = weight[:, 0]
    operator.subtract[:] = 0.0  # type: ignore[index]
    operator.subtract[:, 0] = 100.0  # type: ignore[index]
    x = torch.randn(1, 7, 32, dtype=torch.float64)
    x[..., 0] = 1.0
    torch.testing.assert_close(operator(x).y, torch.zeros_like(x), rtol=0, atol=1e-12)

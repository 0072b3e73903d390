"""The classic operators against PyTorch's own layers, and the laws of every operator."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from evodevo.errors import UsageError
from evodevo.operators.adapters import Adapted
from evodevo.operators.base import Operator
from evodevo.operators.block import Block
from evodevo.operators.both_ways import BothWays
from evodevo.operators.feed_forward import FeedForward
from evodevo.operators.local_convolution import LocalConvolution
from evodevo.operators.lstm import LSTM
from evodevo.operators.self_attention import SelfAttention
from evodevo.operators.transformer import TransformerBlock
from evodevo.testing.operators import OperatorCase, OperatorTests

WIDTH = 16
BUILDERS = {
    "self_attention": lambda: SelfAttention(WIDTH, 4, causal=True),
    "feed_forward": lambda: FeedForward(WIDTH, 24),
    "local_convolution": lambda: LocalConvolution(WIDTH, 5, causal=True),
    "lstm": lambda: LSTM(WIDTH, causal=True),
    "transformer": lambda: TransformerBlock(WIDTH, 2, 24, causal=True),
    "adapted": lambda: Adapted(TransformerBlock(24, 2, 24, causal=True), WIDTH, 24),
    "self_attention_both": lambda: SelfAttention(WIDTH, 4, causal=False),
    "local_convolution_both": lambda: LocalConvolution(WIDTH, 5, causal=False),
    "lstm_both": lambda: LSTM(WIDTH, causal=False),
}


class TestOperators(OperatorTests):
    @pytest.fixture(params=BUILDERS)
    def case(self, request: pytest.FixtureRequest) -> OperatorCase:
        return OperatorCase(BUILDERS[request.param], WIDTH)


def draw(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(5), dtype=torch.float64)


@pytest.mark.parametrize("causal", [True, False])
def test_attention_is_that_of_pytorch(causal: bool) -> None:
    mine = SelfAttention(WIDTH, 4, causal=causal).double()
    theirs = nn.MultiheadAttention(WIDTH, 4, batch_first=True).double()
    with torch.no_grad():
        theirs.in_proj_weight.copy_(mine.project.weight)
        theirs.in_proj_bias.copy_(mine.project.bias)
        theirs.out_proj.load_state_dict(mine.out.state_dict())
    x, mask = draw(3, 9, WIDTH), torch.ones(3, 9, dtype=torch.bool)
    mask[1, 6:] = False
    mask[2, 4:] = False
    hidden = torch.ones(9, 9, dtype=torch.bool).triu(1) if causal else None
    for real in (None, mask):
        y, _ = theirs(x, x, x, key_padding_mask=None if real is None else ~real, attn_mask=hidden, need_weights=False)
        torch.testing.assert_close(mine(x, mask=real).y[mask], y[mask])


def test_a_transformer_block_is_that_of_pytorch() -> None:
    mine = TransformerBlock(WIDTH, 4, 24, causal=False).double()
    theirs = nn.TransformerEncoderLayer(
        WIDTH, 4, 24, dropout=0.0, activation="gelu", batch_first=True, norm_first=True, dtype=torch.float64
    )
    theirs.norm1, theirs.norm2 = mine.attention.norm, mine.feedforward.norm  # RMSNorm here, LayerNorm there
    attention, feedforward = mine.attention.operator, mine.feedforward.operator
    with torch.no_grad():
        theirs.self_attn.in_proj_weight.copy_(attention.project.weight)
        theirs.self_attn.in_proj_bias.copy_(attention.project.bias)
        theirs.self_attn.out_proj.load_state_dict(attention.out.state_dict())
        theirs.linear1.load_state_dict(feedforward.inner.state_dict())
        theirs.linear2.load_state_dict(feedforward.outer.state_dict())
    x = draw(2, 7, WIDTH)
    torch.testing.assert_close(mine(x).y, theirs(x))


@pytest.mark.parametrize("causal", [True, False])
def test_convolution_is_that_of_pytorch(causal: bool) -> None:
    mine, x = LocalConvolution(WIDTH, 5, causal=causal).double(), draw(2, 9, WIDTH)
    padded = F.pad(x.mT, (4, 0) if causal else (2, 2))
    depthwise = F.conv1d(padded, mine.taps.flip(0).t().unsqueeze(1), groups=WIDTH)
    torch.testing.assert_close(mine(x).y, F.gelu(depthwise).mT @ mine.weight.T)


@pytest.mark.parametrize("causal", [True, False])
def test_lstm_leaves_masked_positions_out(causal: bool) -> None:
    mine, x = LSTM(WIDTH, causal=causal).double(), draw(4, 9, WIDTH)
    mask = torch.tensor([[1] * 9, [0, 1] * 4 + [0], [0] * 9, [1] * 3 + [0] * 6], dtype=torch.bool)
    y = mine(x, mask=mask).y
    for row in range(4):
        if mask[row].any():
            alone = mine.lstm(x[row : row + 1, mask[row]])[0][0]
            wanted = alone if causal else alone[:, :WIDTH] + alone[:, WIDTH:]
            torch.testing.assert_close(y[row, mask[row]], wanted)
    assert not bool(y[~mask].any())


def test_lstm_state_passes_pieces_that_are_masked() -> None:
    mine, x = LSTM(WIDTH, causal=True).double(), draw(2, 8, WIDTH)
    mask = torch.tensor([[1, 1, 0, 0, 0, 0, 1, 1], [0, 0, 0, 0, 1, 1, 1, 1]], dtype=torch.bool)
    whole, state = mine(x, mask=mask).y, mine.initial_state(2, 0, x.dtype, x.device)
    pieces = []
    for start in range(0, 8, 2):
        output = mine(x[:, start : start + 2], mask=mask[:, start : start + 2], state=state)
        pieces.append(output.y)
        state = output.state
    torch.testing.assert_close(torch.cat(pieces, 1), whole)


def test_both_ways_hears_both_sides_and_counts_a_residual_stream_once() -> None:
    copies = [LSTM(WIDTH, causal=True).double() for _ in range(2)]
    x = draw(2, 6, WIDTH)
    plain = BothWays(*copies)(x).y
    torch.testing.assert_close(plain, copies[0](x).y + copies[1](x.flip(1)).y.flip(1))
    blocks = [Block(copy, WIDTH).double() for copy in copies]
    y = BothWays(*blocks, stream=True)(x).y
    torch.testing.assert_close(y - x, (blocks[0](x).y - x) + (blocks[1](x.flip(1)).y.flip(1) - x))


@pytest.mark.parametrize("name", ["transformer", "block"])
def test_without_residuals_nothing_is_added(name: str) -> None:
    operator = FeedForward(WIDTH, 24)
    with_one: Operator = Block(operator, WIDTH)
    without: Operator = Block(operator, WIDTH, residual=False)
    if name == "transformer":
        with_one = TransformerBlock(WIDTH, 4, 24, causal=False)
        without = TransformerBlock(WIDTH, 4, 24, causal=False, residual=False)
        without.load_state_dict(with_one.state_dict())
        for parameter in (with_one.feedforward.operator.outer, without.feedforward.operator.outer):
            nn.init.zeros_(parameter.weight)
            nn.init.ones_(parameter.bias)
        x = draw(2, 5, WIDTH).float()
        torch.testing.assert_close(without(x).y, torch.ones_like(x))
        assert not torch.allclose(with_one(x).y, torch.ones_like(x))
        return
    x = draw(2, 5, WIDTH).float()
    torch.testing.assert_close(with_one(x).y, x + without(x).y)


def test_dropout_is_for_training() -> None:
    block, x = TransformerBlock(WIDTH, 4, 24, causal=False, dropout=0.5), draw(2, 5, WIDTH).float()
    assert not torch.equal(block(x).y, block(x).y)
    block.eval()
    assert torch.equal(block(x).y, block(x).y)


def test_adapters_to_a_larger_width_lose_nothing_at_the_start() -> None:
    x = draw(2, 5, WIDTH).float()
    adapted = Adapted(FeedForward(24, 4), WIDTH, 24)
    norms = adapted.enter(x).norm(dim=-1)
    torch.testing.assert_close(norms, x.norm(dim=-1))


@pytest.mark.parametrize(
    "operator",
    [
        SelfAttention(WIDTH, 4, causal=False),
        LocalConvolution(WIDTH, 5, causal=False),
        LSTM(WIDTH, causal=False),
        BothWays(FeedForward(WIDTH, 4), FeedForward(WIDTH, 4)),
    ],
    ids=lambda operator: type(operator).__name__,
)
def test_what_looks_both_ways_keeps_no_state(operator: Operator) -> None:
    assert not operator.causal
    assert not operator.streamable
    with pytest.raises(UsageError, match="causal=True"):
        operator.initial_state(1, 4, torch.float32, torch.device("cpu"))


def test_sizes_that_do_not_fit_are_refused() -> None:
    with pytest.raises(UsageError, match="5 attention heads do not divide the width 16"):
        SelfAttention(WIDTH, 5, causal=True)
    with pytest.raises(UsageError, match="take 3 or 5"):
        LocalConvolution(WIDTH, 4, causal=True)

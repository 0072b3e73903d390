"""Classes of generated files for the operators that are no LIVs, and for what is around an operator."""

from __future__ import annotations

from evodevo.operators.source.sheet import Fragment

BLOCK = Fragment(
    "Block",
    '''
class Block(nn.Module):
    """x + operator(norm(x))."""

    def __init__(self, operator, width):
        super().__init__()
        self.norm = nn.RMSNorm(width, eps=1e-6)
        self.operator = operator

    def forward(self, x, mask):
        return x + self.operator(self.norm(x), mask)
''',
)
PLAIN_BLOCK = Fragment(
    "PlainBlock",
    '''
class PlainBlock(nn.Module):
    """operator(norm(x)), without a residual connection."""

    def __init__(self, operator, width):
        super().__init__()
        self.norm = nn.RMSNorm(width, eps=1e-6)
        self.operator = operator

    def forward(self, x, mask):
        return self.operator(self.norm(x), mask)
''',
)
FEED_FORWARD = Fragment(
    "FeedForward",
    '''
class FeedForward(nn.Module):
    """W_2 activation(W_1 x): nothing passes between positions."""

    def __init__(self, width, hidden, activation=F.gelu):
        super().__init__()
        self.activation = activation
        self.inner = nn.Linear(width, hidden)
        self.outer = nn.Linear(hidden, width)

    def forward(self, x, mask):
        return self.outer(self.activation(self.inner(x)))
''',
)
_PROJECTED = """
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.project = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
"""
ATTENTION = Fragment(
    "Attention",
    f'''
class Attention(nn.Module):
    """Softmax attention of every position to all real ones, or to all where none is real."""
{_PROJECTED}
    def forward(self, x, mask):
        query, key, value = self.project(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        seen = None if mask is None else (mask | ~mask.any(1, keepdim=True))[:, None, None, :]
        mixed = F.scaled_dot_product_attention(query, key, value, attn_mask=seen)
        return self.out(mixed.transpose(1, 2).flatten(2))
''',
)
CAUSAL_ATTENTION = Fragment(
    "CausalAttention",
    f'''
class CausalAttention(nn.Module):
    """Softmax attention of every position to itself and to the real ones before it."""
{_PROJECTED}
    def forward(self, x, mask):
        query, key, value = self.project(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        own = torch.eye(x.shape[1], dtype=torch.bool, device=x.device)
        seen = torch.ones_like(own).tril()
        if mask is not None:
            seen = ((seen & mask[:, None, :]) | own).unsqueeze(1)
        mixed = F.scaled_dot_product_attention(query, key, value, attn_mask=seen)
        return self.out(mixed.transpose(1, 2).flatten(2))
''',
)


def transformer(attention: Fragment, block: Fragment) -> Fragment:
    """The class of transformer blocks with one kind of attention, with or without residual connections."""
    name = attention.name.replace("Attention", "Transformer") + ("" if block is BLOCK else "WithoutResidual")
    return Fragment(
        name,
        f'''
class {name}(nn.Module):
    """Attention and feed-forward network, each behind a norm."""

    def __init__(self, width, heads, hidden, activation=F.gelu):
        super().__init__()
        self.attention = {block.name}({attention.name}(width, heads), width)
        self.feedforward = {block.name}(FeedForward(width, hidden, activation), width)

    def forward(self, x, mask):
        return self.feedforward(self.attention(x, mask), mask)
''',
        (attention, FEED_FORWARD, block),
    )


def lstm(*, causal: bool) -> Fragment:
    """The class of LSTMs of one way, or of both."""
    name, both = ("CausalLSTM", "") if causal else ("LSTM", ", bidirectional=True")
    way = "one way" if causal else "both ways, added"
    last = "y" if causal else "y.unflatten(-1, (2, -1)).sum(-2)"
    return Fragment(
        name,
        f'''
class {name}(nn.Module):
    """An LSTM, {way}. It passes over positions that are not real: the answer there is 0."""

    def __init__(self, width):
        super().__init__()
        self.lstm = nn.LSTM(width, width, batch_first=True{both})

    def forward(self, x, mask):
        if mask is None:
            y, _ = self.lstm(x)
        else:
            order = (~mask).byte().sort(dim=1, stable=True).indices.unsqueeze(-1)  # real positions first
            counts = mask.sum(1).clamp(min=1).cpu()
            packed = pack_padded_sequence(x.gather(1, order.expand_as(x)), counts, True, enforce_sorted=False)
            y, _ = pad_packed_sequence(self.lstm(packed)[0], True, total_length=x.shape[1])
            y = torch.zeros_like(y).scatter(1, order.expand_as(y), y) * mask.unsqueeze(-1)
        return {last}
''',
    )


CONVOLUTION = Fragment(
    "Convolution",
    '''
class Convolution(nn.Module):
    """W gelu(taps * x), with taps (K, D) that reach ``ahead`` positions to the right; positions not real are zeros."""

    def __init__(self, width, kernel, ahead):
        super().__init__()
        self.ahead = ahead
        self.taps = nn.Parameter(torch.empty(kernel, width))
        self.weight = nn.Parameter(torch.empty(width, width))

    def forward(self, x, mask):
        if mask is not None:
            x = x * mask.unsqueeze(-1)
        before = len(self.taps) - 1
        wide = F.pad(x, (0, 0, before - self.ahead, self.ahead))
        mixed = sum(tap * wide[:, before - k : before - k + x.shape[1]] for k, tap in enumerate(self.taps))
        return F.linear(F.gelu(mixed), self.weight)
''',
)
ADAPTED = Fragment(
    "Adapted",
    '''
class Adapted(nn.Module):
    """An operator of ``inner`` channels between two linear maps."""

    def __init__(self, operator, width, inner):
        super().__init__()
        self.enter = nn.Linear(width, inner)
        self.operator = operator
        self.leave = nn.Linear(inner, width)

    def forward(self, x, mask):
        return self.leave(self.operator(self.enter(x), mask))
''',
)
BOTH_WAYS = Fragment(
    "BothWays",
    '''
class BothWays(nn.Module):
    """One causal operator over the sequence plus one over the reversed sequence."""

    def __init__(self, forward_copy, backward_copy):
        super().__init__()
        self.forward_copy = forward_copy
        self.backward_copy = backward_copy

    def forward(self, x, mask):
        back = self.backward_copy(x.flip(1), None if mask is None else mask.flip(1))
        return self.forward_copy(x, mask) + back.flip(1)
''',
)
DIFFERENCE = Fragment(
    "Difference",
    '''
class Difference(nn.Module):
    """Two operators of one kind: the second's output is subtracted."""

    def __init__(self, first, second):
        super().__init__()
        self.first, self.second = first, second

    def forward(self, x, mask):
        return self.first(x, mask) - self.second(x, mask)
''',
)
MASKED_MEAN = Fragment(
    "masked_mean",
    '''
def masked_mean(x, mask):
    """Mean of x (..., S, D) over real positions; zeros where there is none."""
    if mask is None:
        return x.mean(-2)
    real = mask.to(x.dtype).unsqueeze(-1)
    return (x * real).sum(-2) / real.sum(-2).clamp(min=1.0)
''',
)

"""Classes of generated files for the nodes of a module's graph (``module_zoo.modules.nodes``)."""

from __future__ import annotations

from evodevo.operators.source.layers import FEED_FORWARD, MASKED_MEAN
from evodevo.operators.source.sheet import Fragment

SILENCED = Fragment(
    "silenced",
    '''
def silenced(x, mask):
    """x (B, L, w), 0 at positions that are not real."""
    return x if mask is None else x.masked_fill(~mask.unsqueeze(-1), 0)
''',
)
OUTER_SIGMOID = Fragment(
    "SigmoidFeedForward",
    '''
class SigmoidFeedForward(nn.Module):
    """sigmoid(W_2 activation(W_1 x))."""

    def __init__(self, width, hidden, activation):
        super().__init__()
        self.inside = FeedForward(width, hidden, activation)

    def forward(self, x, mask):
        return self.inside(x, mask).sigmoid()
''',
    (FEED_FORWARD,),
)
CONVOLUTION = Fragment(
    "CentredConvolution",
    '''
class CentredConvolution(nn.Module):
    """A centred convolution over positions, then the activation, if there is one."""

    def __init__(self, width, out, kernel, activation=None):
        super().__init__()
        self.convolution = nn.Conv1d(width, out, kernel, padding=kernel // 2)
        self.activation = activation

    def forward(self, x, mask):
        y = self.convolution(silenced(x, mask).transpose(1, 2)).transpose(1, 2)
        return silenced(y if self.activation is None else self.activation(y), mask)
''',
    (SILENCED,),
)
RECURRENT = Fragment(
    "Recurrent",
    '''
class Recurrent(nn.Module):
    """An LSTM over real positions and a linear map of its states."""

    def __init__(self, width, hidden, layers, both_ways):
        super().__init__()
        self.lstm = nn.LSTM(width, hidden, layers, batch_first=True, bidirectional=both_ways)
        self.out = nn.Linear(hidden * (2 if both_ways else 1), width)

    def forward(self, x, mask):
        if mask is None:
            return self.out(self.lstm(x)[0])
        order = (~mask).byte().sort(dim=1, stable=True).indices.unsqueeze(-1)  # real positions first
        counts = mask.sum(1).clamp(min=1).cpu()
        packed = pack_padded_sequence(x.gather(1, order.expand_as(x)), counts, True, enforce_sorted=False)
        y, _ = pad_packed_sequence(self.lstm(packed)[0], True, total_length=x.shape[1])
        return self.out(torch.zeros_like(y).scatter(1, order.expand_as(y), y) * mask.unsqueeze(-1))
''',
)
SQUEEZE_EXCITE = Fragment(
    "SqueezeExcite",
    '''
class SqueezeExcite(nn.Module):
    """x sigmoid(W_2 activation(W_1 mean x)): every channel of a sample by one number."""

    def __init__(self, width, units, activation):
        super().__init__()
        self.squeeze = nn.Linear(width, units)
        self.excite = nn.Linear(units, width)
        self.activation = activation

    def forward(self, x, mask):
        mean = masked_mean(silenced(x, mask), mask)
        return x * self.excite(self.activation(self.squeeze(mean))).sigmoid().unsqueeze(1)
''',
    (SILENCED, MASKED_MEAN),
)
NORM = Fragment(
    "Norm",
    '''
class Norm(nn.Module):
    """Layer norm over channels."""

    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)

    def forward(self, x, mask):
        return self.norm(x)
''',
)
PROJECTION = Fragment(
    "Projection",
    '''
class Projection(nn.Module):
    """A linear map of each position."""

    def __init__(self, width, out):
        super().__init__()
        self.map = nn.Linear(width, out)

    def forward(self, x, mask):
        return self.map(x)
''',
)
GATE = Fragment(
    "ChannelGate",
    '''
class ChannelGate(nn.Module):
    """Every channel times a learned number."""

    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(width))

    def forward(self, x, mask):
        return x * self.weight
''',
)

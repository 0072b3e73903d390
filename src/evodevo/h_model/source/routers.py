"""Classes of generated files for the routers of an H-Model (``h_model.router``)."""

from __future__ import annotations

from evodevo.h_model.router import Router
from evodevo.networks.source.routing import pool_source
from evodevo.operators.source.sheet import Fragment, SourceSheet, call

FEED_FORWARD = Fragment(
    "Router",
    '''
class Router(nn.Module):
    """A pooled message (B, S, D) -> logits (B, P, targets) of its connections, by one hidden layer."""

    def __init__(self, pool, width, hidden, targets):
        super().__init__()
        self.pool = pool
        self.inner = nn.Linear(width, hidden)
        self.outer = nn.Linear(hidden, targets)

    def forward(self, h, mask):
        return self.outer(F.gelu(self.inner(self.pool(h, mask))))
''',
)
LINEAR = Fragment(
    "LinearRouter",
    '''
class LinearRouter(nn.Module):
    """A pooled message (B, S, D) -> logits (B, P, targets) of its connections."""

    def __init__(self, pool, width, targets):
        super().__init__()
        self.pool = pool
        self.outer = nn.Linear(width, targets)

    def forward(self, h, mask):
        return self.outer(self.pool(h, mask))
''',
)
CHANNEL = Fragment(
    "ChannelRouter",
    '''
class ChannelRouter(nn.Module):
    """Some channels of the pooled message (B, S, D), plus learned numbers, are the logits (B, P, targets)."""

    def __init__(self, pool, targets):
        super().__init__()
        self.pool = pool
        self.register_buffer("channels", torch.zeros(targets, dtype=torch.long))
        self.logits = nn.Parameter(torch.empty(targets))

    def forward(self, h, mask):
        return self.pool(h, mask)[..., self.channels] + self.logits
''',
)
INDEPENDENT = Fragment(
    "IndependentRouter",
    '''
class IndependentRouter(nn.Module):
    """Learned logits (B, 1, targets) that do not depend on the message."""

    def __init__(self, targets):
        super().__init__()
        self.logits = nn.Parameter(torch.empty(targets))

    def forward(self, h, mask):
        return self.logits.expand(h.shape[0], 1, -1)
''',
)
CONSTANT = Fragment(
    "ConstantRouter",
    '''
class ConstantRouter(nn.Module):
    """No logits: its connections have a fixed weight."""

    def forward(self, h, mask):
        return h.new_zeros(h.shape[0], 1, 1)
''',
)


def router_source(sheet: SourceSheet, router: Router) -> str:
    """The expression of a router."""
    if router.head == "constant":
        return f"{sheet.add(CONSTANT)}()"
    if router.head == "independent":
        assert router.logits is not None
        return call(sheet.add(INDEPENDENT), len(router.logits))
    assert router.pool is not None
    pool = pool_source(sheet, router.pool)
    if router.head == "channel":
        assert router.logits is not None
        return call(sheet.add(CHANNEL), pool, len(router.logits))
    assert router.outer is not None
    if router.inner is None:
        return call(sheet.add(LINEAR), pool, router.outer.in_features, router.outer.out_features)
    inner = router.inner
    return call(sheet.add(FEED_FORWARD), pool, inner.in_features, inner.out_features, router.outer.out_features)

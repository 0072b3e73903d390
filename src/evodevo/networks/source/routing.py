"""Functions and classes of generated files for routing: pools, gates, and the choice of connections."""

from __future__ import annotations

from evodevo.networks.routing.pools import Pooling
from evodevo.networks.routing.spec import InferenceStructure
from evodevo.operators.source.layers import MASKED_MEAN
from evodevo.operators.source.sheet import Fragment, SourceSheet

_POOL = '''
class {name}(nn.Module):
    """{words}"""

    def forward(self, h, mask):
{body}
'''


def _pool(name: str, words: str, body: str, *needs: Fragment) -> Fragment:
    return Fragment(name, _POOL.format(name=name, words=words, body=body), needs)


POOLS: dict[str, Fragment] = {
    "attention": Fragment(
        "AttentionPool",
        '''
class AttentionPool(nn.Module):
    """Mean over real positions, weighted by the softmax of their products with a query: (B, S, D) -> (B, 1, D)."""

    def __init__(self, width):
        super().__init__()
        self.query = nn.Parameter(torch.empty(width))

    def forward(self, h, mask):
        scores = (h @ self.query) * h.shape[-1] ** -0.5
        if mask is None:
            return scores.softmax(-1).unsqueeze(1) @ h
        weights = scores.masked_fill(~mask, torch.finfo(h.dtype).min).softmax(-1) * mask
        return weights.unsqueeze(1) @ h
''',
    ),
    "mean": _pool(
        "MeanPool",
        "Mean over real positions: (B, S, D) -> (B, 1, D).",
        "        return masked_mean(h, mask).unsqueeze(1)",
        MASKED_MEAN,
    ),
    "max": _pool(
        "MaxPool",
        "Maximum over real positions: (B, S, D) -> (B, 1, D).",
        """        if mask is None:
            return h.amax(1, keepdim=True)
        lowest = torch.finfo(h.dtype).min
        return h.masked_fill(~mask.unsqueeze(-1), lowest).amax(1, keepdim=True) * mask.any(1)[:, None, None]""",
    ),
    "last": _pool(
        "LastPool",
        "The last real position: (B, S, D) -> (B, 1, D).",
        """        if mask is None:
            return h[:, -1:]
        place = (torch.arange(1, h.shape[1] + 1, device=h.device) * mask).argmax(1)
        picked = h.gather(1, place[:, None, None].expand(-1, 1, h.shape[-1]))
        return picked * mask.any(1)[:, None, None]""",
    ),
    "token": _pool("EachPosition", "Every position by itself: (B, S, D) -> (B, S, D).", "        return h"),
    "prefix_mean": _pool(
        "PrefixMean",
        "Mean over the real positions up to each one: (B, S, D) -> (B, S, D).",
        """        real = torch.ones_like(h[..., :1]) if mask is None else mask.to(h.dtype).unsqueeze(-1)
        return (h * real).cumsum(-2) / real.cumsum(-2).clamp(min=1.0)""",
    ),
}


def pool_source(sheet: SourceSheet, pool: Pooling) -> str:
    """The expression of a pool."""
    name = sheet.add(POOLS[pool.kind])
    return f"{name}({pool.query.shape[0]})" if pool.query is not None else f"{name}()"


SPARSEMAX = Fragment(
    "sparsemax",
    '''
def sparsemax(logits, dim):
    """The point of the simplex nearest to the logits (Martins and Astudillo 2016)."""
    logits = (logits - logits.amax(dim, keepdim=True)).clamp(min=-2.0)  # further below the weight is 0 anyway
    sorted_, _ = logits.sort(dim, descending=True)
    count = torch.arange(1, logits.shape[dim] + 1, dtype=logits.dtype, device=logits.device)
    count = count.view([-1 if axis == dim % logits.ndim else 1 for axis in range(logits.ndim)])
    sums = sorted_.cumsum(dim)
    support = (1 + count * sorted_ > sums).sum(dim, keepdim=True)
    threshold = (sums.gather(dim, support - 1) - 1) / support
    return (logits - threshold).clamp(min=0)
''',
)
GATES: dict[str, tuple[str, str, tuple[Fragment, ...]]] = {
    "sigmoid": ("torch.sigmoid(logits)", "each in [0, 1]", ()),
    "gumbel": ("torch.sigmoid(logits)", "each in [0, 1]", ()),
    "softmax_out": ("logits.softmax(-1)", "one in sum over targets", ()),
    "softmax_in": ("logits.softmax(-2)", "one in sum over sources", ()),
    "sparsemax_in": ("sparsemax(logits, -2)", "one in sum over sources, many of them 0", (SPARSEMAX,)),
}


def gate_source(sheet: SourceSheet, gate: str) -> str:
    """The function ``open_gates(logits, alpha, legal)`` of a gate; returns its name."""
    expression, words, needs = GATES[gate]
    name = f"open_{gate}"
    text = f'''
def {name}(logits, alpha, legal):
    """Connection weights (..., K, N) from logits, {words}; alpha divides them; 0 where ``legal`` (K, N) is false."""
    logits = (logits / alpha).masked_fill(~legal, -1e9)
    return {expression} * legal
'''
    return sheet.add(Fragment(name, text, needs))


LARGEST = Fragment(
    "largest",
    '''
def largest(values, count):
    """True at the ``count`` largest along the last axis; of equal ones the first count."""
    order = values.sort(dim=-1, descending=True, stable=True).indices[..., :count]
    return torch.zeros_like(values, dtype=torch.bool).scatter(-1, order, True)
''',
)
EVENED = Fragment(
    "evened",
    '''
def evened(values):
    """Values on a grid, so that ranks do not depend on rounding."""
    return (values * 2.0**18).round() / 2.0**18
''',
)


def kept_source(
    sheet: SourceSheet, inference: InferenceStructure, hidden: int, budget: tuple[list[int], int] | None = None
) -> str | None:
    """The function ``keep(weights)`` of the connections that count; None where all do.

    Args:
        sheet: The file.
        inference: The choice.
        hidden: Number of hidden layers, H; they are the first targets.
        budget: FLOPs of one run of each hidden layer, and number of iterations, for the mode ``budget``.
    """
    mode = inference.mode
    if mode == "dense":
        return None
    needs: tuple[Fragment, ...] = ()
    rest = f"torch.cat([kept, weights[..., {hidden}:]], -1)"
    if mode == "threshold":
        words = f"Connections below {inference.threshold:g} are cut; those to outputs stay."
        body = f"    kept = weights[..., :{hidden}]\n"
        body += f"    kept = kept.masked_fill(kept < {inference.threshold!r}, 0.0)\n    return {rest}"
    elif mode == "source_topk":
        needs = (LARGEST,)
        words = f"Each source keeps its {inference.k} largest connections" + (
            "." if inference.outputs_count else " to hidden layers; those to outputs stay."
        )
        if inference.outputs_count:
            body = f"    return weights * largest(weights, {inference.k})"
        else:
            body = (
                f"    kept = weights[..., :{hidden}]\n    kept = kept * largest(kept, {inference.k})\n    return {rest}"
            )
    elif mode == "target_topm":
        needs = (EVENED, LARGEST)
        words = f"The {inference.m} hidden layers with the largest inflow receive; outputs always do."
        body = f"    kept = weights[..., :{hidden}]\n"
        body += f"    kept = kept * largest(evened(kept.sum(-2)), {inference.m}).unsqueeze(-2)\n    return {rest}"
    else:
        assert budget is not None
        needs = (EVENED,)
        prices, steps = budget
        limit = inference.flops / max(steps, 1) * (1 + 1e-9)
        words = (
            "Hidden layers with the largest inflow receive while their FLOPs are within the budget; outputs always do."
        )
        body = f"""    kept = weights[..., :{hidden}]
    inflow = evened(kept.sum(-2))
    prices = torch.tensor({prices}, dtype=inflow.dtype, device=inflow.device)
    order = inflow.sort(dim=-1, descending=True, stable=True).indices
    chosen = torch.zeros_like(inflow, dtype=torch.bool).scatter(-1, order, prices[order].cumsum(-1) <= {limit!r})
    kept = kept * chosen.unsqueeze(-2)
    return {rest}"""
    for need in needs:
        sheet.add(need)
    key = ("kept", inference.model_dump_json(), hidden, str(budget))
    return sheet.write(key, "keep", lambda name: f'def {name}(weights):\n    """{words}"""\n{body}')

"""Classes of generated files for the aggregations of an H-Model (``h_model.aggregations``)."""

from __future__ import annotations

from evodevo.h_model.aggregations.base import Normaliser
from evodevo.operators.source.layers import MASKED_MEAN
from evodevo.operators.source.sheet import Fragment

WEIGHTED_SUM = Fragment(
    "weighted_sum",
    '''
def weighted_sum(messages, weights):
    """Sum over sources of weight (B, P, K, N) times message (B, K, S, D): (B, N, S, D)."""
    if weights.shape[1] == 1:
        return torch.einsum("bkn,bksd->bnsd", weights[:, 0], messages)
    return torch.einsum("bskn,bksd->bnsd", weights, messages)
''',
)
AT_POSITIONS = Fragment(
    "at_positions",
    '''
def at_positions(weights, masks):
    """Weights (B, P, K, N), zero at the positions that a source lacks: (B, S, K, N) where there are masks (B, K, S)."""
    return weights if masks is None else weights * masks.transpose(1, 2).unsqueeze(-1)
''',
)
_SUM = '''
class {name}(nn.Module):
    """Weighted sum of messages (B, K, S, D) with weights (B, P, K, N), {words}: (B, N, S, D)."""

    def forward(self, messages, weights, masks, of_input):
        local = at_positions(weights, masks)
        divisor = {divisor}  # (B, P or S, N)
        return weighted_sum(messages, weights) / divisor.transpose(1, 2).unsqueeze(-1)
'''
_PARTS: dict[Normaliser, tuple[str, str, str]] = {
    "sum": ("Sum", "divided by their sum where it is above 1", "local.sum(-2).clamp(min=1.0)"),
    "count": ("CountedSum", "divided by the number of those above 1/2", "(local > 0.5).sum(-2).clamp(min=1)"),
    "softmax": ("WeightedMean", "divided by their sum", "local.sum(-2).masked_fill(local.sum(-2) == 0, 1.0)"),
}
"""Normaliser -> name of its class, words for its docstring, its divisor."""


def summed(normaliser: Normaliser) -> Fragment:
    """The class of the aggregation ``sum``."""
    name, words, divisor = _PARTS[normaliser]
    return Fragment(name, _SUM.format(name=name, words=words, divisor=divisor), (WEIGHTED_SUM, AT_POSITIONS))


_ATTENTION = '''
class SourceAttention(nn.Module):
    """Messages (B, K, S, D) of sources with identities, weighted by attention of the targets' queries and by the
    connection weights (B, P, K, N): (B, N, S, D)."""

    def __init__(self, width, inputs, hidden, targets):
        super().__init__()
        self.query = nn.Parameter(torch.empty(targets, width))
        self.key = nn.Linear(width, width, bias=False)
        self.input_source = nn.Parameter(torch.empty(inputs, width))
        self.hidden_source = nn.Parameter(torch.empty(hidden, width))

    def forward(self, messages, weights, masks, of_input):
        source = self.input_source if of_input else self.hidden_source
        query = self.query[-weights.shape[-1] :]
        named = messages + source[:, None, :]
        if masks is not None:
            named = named * masks.unsqueeze(-1)
        pooled = {pooled}
        scores = (self.key(pooled) + source) @ query.T * messages.shape[-1] ** -0.5
        local = at_positions(weights, masks)
        logits = (scores + local.clamp(min=1e-12).log()).masked_fill(local == 0, torch.finfo(scores.dtype).min)
        share = logits.softmax(-2) * (local > 0) * local.sum(-2, keepdim=True).clamp(max=1.0)
        return weighted_sum(named, share)
'''


def attention(*, per_position: bool) -> Fragment:
    """The class of the aggregation ``attention``."""
    pooled = "messages.transpose(1, 2)" if per_position else "masked_mean(messages, masks).unsqueeze(1)"
    needs = (WEIGHTED_SUM, AT_POSITIONS, *(() if per_position else (MASKED_MEAN,)))
    return Fragment("SourceAttention", _ATTENTION.format(pooled=pooled), needs)

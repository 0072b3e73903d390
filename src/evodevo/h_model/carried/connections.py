"""Connections of a carried stream: which hidden layers are addressed, and how strongly.

Source: docs/spec/h_model.md#the-carried-stream.

Legend: B samples, K sources at hand, H hidden layers, O outputs, M addressed layers at most; P is 1, or S positions
where connections are decided at each.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from evodevo.h_model.carried.births import weighted_softmax
from evodevo.networks.routing.gates import FAR, widened
from evodevo.networks.routing.skipping import evened, largest


class Connections(NamedTuple):
    """The connections of one step, already multiplied by the relative strength r of their sources.

    Attributes:
        chosen: Indices of M different hidden layers, (B, P, M), the one with the largest inflow first.
        hidden: Weights r c of the connections to these, (B, P, K, M); 0 where a source does not keep one.
        outputs: Weights r c of the connections to the outputs, (B, P, K, O).
        dense: Sum over sources of r c before any is left out, (B, P, H): what the loss on balance reads.
    """

    chosen: Tensor
    hidden: Tensor
    outputs: Tensor
    dense: Tensor

    @property
    def inflow(self) -> Tensor:
        """a = sum over sources of r c, of the chosen layers: (B, P, M)."""
        return self.hidden.sum(-2)


def given(target: Tensor, hidden: int, outputs: int, strength: Tensor, said: Tensor | None) -> Connections:
    """One hidden layer with weight 1 from every source, whatever a router would say.

    Args:
        target: The layer of each sample, (B,).
        hidden: H.
        outputs: O.
        strength: r of each source, (B, 1, K).
        said: Weights to the outputs as a router has them, (B, 1, K, O); 1 where there is none.
    """
    chosen, weights = target.view(-1, 1, 1), strength.unsqueeze(-1)
    dense = torch.zeros(len(target), 1, hidden, dtype=strength.dtype, device=strength.device)
    dense = dense.scatter(-1, chosen, strength.sum(-1, keepdim=True))
    to_outputs = weights.expand(*weights.shape[:-1], outputs) if said is None else said * weights
    return Connections(chosen, weights, to_outputs, dense)


def connect(
    logits: Tensor,
    hidden: int,
    strength: Tensor,
    legal: Tensor | None,
    alpha: float,
    m: int,
    cap: int,
    *,
    factor: Tensor | None = None,
    level: bool = False,
) -> Connections:
    """Weights from logits, in float32 at least.

    The M layers that receive most from all sources together are chosen first, then each source keeps its m largest
    connections among them: so no active source is left without a target, where all may address all. With a window a
    source may have none among the chosen ones; it sends to no layer then. What is kept is not normalised again.

    Args:
        logits: (B, P, K, H + O).
        hidden: H.
        strength: r of each source, (B, P, K): 1 for the one that is addressed most, 0 for one that is not active.
        legal: True where a connection may exist; broadcasts to ``logits``. None where all may.
        alpha: Divides the logits.
        m: Hidden targets that each source keeps.
        cap: M, at most H.
        factor: Birth factor of each hidden layer, (H,); None where all are 1.
        level: Spread what each source keeps evenly over all layers that it may address; all of these are chosen then.
    """
    scaled, relative = widened(logits), strength.unsqueeze(-1)
    if alpha != 1:
        scaled = scaled / alpha
    soft = scaled[..., :hidden]
    may, all_may = None if legal is None else legal[..., :hidden], legal is None and factor is None
    if factor is not None:
        soft = weighted_softmax(soft, torch.ones_like(soft, dtype=torch.bool) if may is None else may, factor)
    elif may is not None:
        soft = soft.masked_fill(~may, FAR).softmax(-1) * may
    else:
        soft = soft.softmax(-1)
    dense = (soft * relative).sum(-2)
    even = _ranked(dense, all_may=all_may)
    if cap == 1:
        chosen = even.argmax(-1, keepdim=True)
    else:
        chosen = even.sort(dim=-1, descending=True, stable=True).indices[..., :cap]
    near = soft.gather(-1, chosen.unsqueeze(-2).expand(*soft.shape[:-1], cap))
    if m < cap:
        near = near * largest(_ranked(near, all_may=all_may), m)
    if level:
        there = torch.ones_like(soft) if may is None else may.expand_as(soft).to(soft.dtype)
        near = there * near.sum(-1, keepdim=True) / there.sum(-1, keepdim=True).clamp(min=1)
        chosen = torch.arange(hidden, device=soft.device).expand(*soft.shape[:2], -1)
    outputs = torch.sigmoid(scaled[..., hidden:])
    if legal is not None:
        outputs = outputs * legal[..., hidden:]
    return Connections(chosen, near * relative, outputs * relative, dense)


def _ranked(weights: Tensor, *, all_may: bool) -> Tensor:
    """Values to rank by: on a grid, so that rounding decides nothing and of equal ones the first is taken; what is
    exactly 0, as where no connection may exist, comes behind all others."""
    even = evened(weights.detach())
    return even if all_may else even.masked_fill(weights == 0, -1.0)

"""Weighted behaviour cloning: a policy imitates earlier edits that were better than the mean.

Source: docs/spec/architect_thyself.md#edit-memory.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from evodevo.growth.strategists.choice import PolicyOutput
from evodevo.growth.strategists.edit_memory import EditMemory
from evodevo.growth.strategists.policy import Policy
from evodevo.growth.strategists.spec import MemorySettings
from evodevo.growth.strategists.state import Legal, State


def imitate(
    policy: Policy, choose: Callable[[State, Legal], PolicyOutput], memory: EditMemory, settings: MemorySettings
) -> int:
    """Raise sum_i w_i log pi(a_i | S_i) over the best edits, where w is the advantage of an edit.

    Args:
        policy: Policy, trained in place.
        choose: Returns its distribution.
        memory: Earlier edits.
        settings: Number of epochs, learning rate, number of edits.

    Returns:
        The number of edits that were imitated.
    """
    advantages = zip(memory.advantages(settings.doubt), memory.edits, strict=True)
    weighted = [(weight, edit) for advantage, edit in advantages if (weight := max(advantage, 0.0))]
    # A stable sort: of equal ones the older stay first.
    best = sorted(weighted, key=lambda pair: -pair[0])[: settings.most]
    if not best or not settings.epochs:
        return 0
    optimizer = torch.optim.Adam(policy.parameters(), lr=settings.rate)
    total = sum(weight for weight, _ in best)
    for _ in range(settings.epochs):
        optimizer.zero_grad(set_to_none=True)
        for weight, edit in best:
            loss = -weight / total * choose(edit.state, edit.legal).log_probability(edit.action)
            torch.autograd.backward(loss)
        optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return len(best)

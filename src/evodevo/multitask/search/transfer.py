"""The weight of each path in a draw of a parent, by the probe of what it represents.

Ours; docs/spec/munet.md#probes. The published agents draw uniformly.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence

TEMPERATURE = 0.1
"""Difference of log-losses in nats, of draws of parents and of supports."""


def transfer_weights(
    pool: Sequence[str],
    own: Collection[str],
    losses: Mapping[str, float],
    *,
    temperature: float,
    explore: float,
) -> dict[str, float] | None:
    """``explore / n + (1 - explore) · softmax(-loss / temperature)``: at least the first part; they sum to 1.

    An own path counts as the best probed one, a path that was not probed as the mean one.

    Args:
        pool: Ids of the paths.
        own: Those of the agent itself.
        losses: Id -> log-loss of its probe, in nats.
        temperature: Difference of log-losses that changes a chance by the factor e, in nats.
        explore: Share of the draw that is uniform, 0 to 1.

    Returns:
        Id -> weight; None where no path of the pool was probed.
    """
    known = [losses[one] for one in pool if one in losses]
    if not known:
        return None
    best, mean = min(known), math.fsum(known) / len(known)
    values = {one: best if one in own else losses.get(one, mean) for one in pool}
    raw = {one: math.exp(-(value - best) / temperature) for one, value in values.items()}
    total = math.fsum(raw.values())
    return {one: explore / len(raw) + (1 - explore) * weight / total for one, weight in raw.items()}

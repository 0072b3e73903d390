"""Relations: the part of a router's decision that is independent of which other modules exist.

It is shared by the passes of one decision (newborns need several) and by probes, which leave out one module after the
other.

Legend: B samples, N modules, H heads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Relations:
    """Relations of N modules; in float32 at least.

    Attributes:
        count: Number of modules, N.
        relevance: Relevance r of each module for the sample (54), (B, H, N); None where a router reads f alone, or
            nothing.
        agreement: Agreement S of each two modules (55), (B or 1, H, N, N); None where a router has no synergy.
        gain: Gain of each module by all others (56), (B or 1, H, N); None where it is not computed yet.
    """

    count: int
    relevance: Tensor | None = None
    agreement: Tensor | None = None
    gain: Tensor | None = None

    def only(self, places: Sequence[int]) -> Relations:
        """Relations of some of the modules, in this order."""
        relation = self.relevance if self.relevance is not None else self.agreement
        chosen = torch.tensor(places, dtype=torch.long, device=None if relation is None else relation.device)
        return Relations(
            len(places),
            None if self.relevance is None else self.relevance.index_select(-1, chosen),
            None if self.agreement is None else self.agreement.index_select(-2, chosen).index_select(-1, chosen),
        )

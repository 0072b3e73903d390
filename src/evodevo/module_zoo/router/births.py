"""Births of modules: a newborn has no effect at first, and its weight rises gradually.

Source: docs/spec/architect_thyself.md#birth.

With the birth factor b of the newborns and s = 1 - b

    alpha = (1 - b) gate(mature modules) + b ((1 - s) gate(all) + s softmax(all)),

where every gate reads logits with a synergy sum of its own. At b = 0 that is exactly the router without newborns, at
b = 1 exactly the router of all; in between the softmax gives every newborn a gradient in every sample, also where the
gate is sparse and would not let it through. Newborns of different age join one after the other, the oldest first: each
finds the mixture of those before it in the place of ``gate(mature modules)``.

``beside`` keeps newborns out of the gates until they are warm: with c = max(0, 4 b - 3)

    alpha = (1 - c) (gate(mature modules) + b (softmax(all) + 1 / N) / 2 at the newborns) + c gate(all),

so that for three quarters of the warm-up nobody loses weight to a newborn, and in the last one it joins the gate
without a jump. The mixture of the mature modules stays as it was, and beside it a residual grows. The softmax lets the
router learn whom the newborn suits; 1 / N lets the newborn learn where its logit is far below all others.

A twin starts as a copy of an existing module, and takes half of its weight until it is mature. At b = 0 nothing else
changes: neither gate nor synergy nor top-K counts the pair twice.

Legend: B samples, N modules, H heads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from evodevo.errors import UsageError, quoted_list

Weigh = Callable[[tuple[int, ...]], tuple[Tensor, Tensor]]
"""Returns the gate of the logits of the modules at some indices, and the weights of newborns among them meanwhile: the
softmax, or its mean with equal weights where they are added beside the gate; each (B, H, N), 0 elsewhere."""


@dataclass(frozen=True)
class Births:
    """Birth factors of modules.

    Attributes:
        factors: Birth factor b of each module, 0 to 1; 1 for mature ones.
        twins: Index of the module that a newborn copies, by index of the newborn.
        added: Whether newborns are added beside the gate; a twin has its share of its parent's weight in both cases.

    Raises:
        UsageError: A factor outside [0, 1], or a twin of a module that is not older.
    """

    factors: tuple[float, ...]
    twins: Mapping[int, int]
    added: bool = False

    def __post_init__(self) -> None:
        wrong = [factor for factor in self.factors if not 0 <= factor <= 1]
        if wrong:
            raise UsageError(f"birth factors lie in [0, 1]; given: {quoted_list(wrong)}.")
        for child, parent in self.twins.items():
            if self.factors[parent] <= self.factors[child] < 1:
                raise UsageError(f"the module at place {child} is the twin of one at {parent} that is not older.")

    @classmethod
    def of(cls, factors: Tensor, twins: Mapping[int, int] | None, *, added: bool = False) -> Births:
        """From factors (N,); on an accelerator this synchronises."""
        return cls(tuple(float(factor) for factor in factors.tolist()), dict(twins or {}), added)

    @property
    def mature(self) -> tuple[int, ...]:
        """Indices of mature modules."""
        return tuple(place for place, factor in enumerate(self.factors) if factor == 1)

    @property
    def newborn(self) -> tuple[int, ...]:
        """Indices of newborns."""
        return tuple(place for place, factor in enumerate(self.factors) if factor < 1)

    @property
    def split(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Indices of mature modules, and of newborns."""
        return self.mature, self.newborn

    def ages(self) -> list[tuple[float, Births]]:
        """(b, births with all modules of that age or older mature), the oldest newborns first."""
        ages = sorted({self.factors[place] for place in self.newborn}, reverse=True)
        return [
            (age, Births(tuple(1.0 if factor >= age else factor for factor in self.factors), self.twins, self.added))
            for age in ages
        ]

    def weights(self, weigh: Weigh) -> Tensor:
        """Weights alpha, (B, H, N), from those that ``weigh`` returns for some of the modules."""
        weights, _ = weigh(self.mature)
        for factor in sorted({self.factors[place] for place in self.newborn}, reverse=True):
            joining = [place for place in self.newborn if self.factors[place] == factor]
            weights = self._halved(weights, joining)
            if factor == 0:
                continue
            gated, even = weigh(tuple(place for place, other in enumerate(self.factors) if other >= factor))
            if self.added:
                joined = max(0.0, (factor - ALONE) / (1 - ALONE))
                own = [place for place in joining if place not in self.twins]
                weights = (1 - joined) * (weights + factor * _only(even, own)) + joined * gated
                continue
            weights = (1 - factor) * weights + factor * (factor * gated + (1 - factor) * even)
        return weights

    def _halved(self, weights: Tensor, joining: Sequence[int]) -> Tensor:
        """Weights in which new twins share their parents' weights."""
        for child in joining:
            if child not in self.twins:
                continue
            half = weights[..., self.twins[child]] / 2
            places = torch.arange(weights.shape[-1], device=weights.device)
            pair = (places == child) | (places == self.twins[child])
            weights = torch.where(pair, half.unsqueeze(-1), weights)
        return weights

    def together(self, weights: Tensor) -> Tensor:
        """Weights (B, N), with those of its twins added to a parent."""
        for child, parent in self._pairs():
            weights = weights.index_add(-1, _place(parent, weights), weights[:, child : child + 1])
        return weights

    def beside(self, kept: Tensor) -> Tensor:
        """(B, N), true at mature modules that are kept and at newborns; a twin follows its parent."""
        kept = kept.index_fill(-1, torch.tensor(self.newborn, device=kept.device), True)
        for child, parent in reversed(self._pairs()):
            kept = kept.index_copy(-1, _place(child, kept), kept[:, parent : parent + 1])
        return kept

    def _pairs(self) -> list[tuple[int, int]]:
        """(newborn, parent), the youngest first: a twin of a twin passes its weight on."""
        pairs = [(child, parent) for child, parent in self.twins.items() if self.factors[child] < 1]
        return sorted(pairs, key=lambda pair: self.factors[pair[0]])


ALONE = 0.75
"""Birth factor up to which a newborn that is added beside the gate takes no part in it."""


def _only(weights: Tensor, places: Sequence[int]) -> Tensor:
    """Weights (B, H, N) with 0 everywhere but at some places."""
    kept = torch.zeros(weights.shape[-1], dtype=weights.dtype, device=weights.device)
    return weights * kept.index_fill(0, torch.tensor(places, dtype=torch.long, device=weights.device), 1.0)


def _place(place: int, like: Tensor) -> Tensor:
    return torch.tensor([place], device=like.device)

"""What every router over modules does: logits to weights, at most K of them, and the mixture (eqs. 51, 52, 60, 61).

Legend: B samples, N modules, H heads, d width, K modules that a sample may use.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from evodevo.module_zoo.router.births import Births
from evodevo.module_zoo.router.gates import LEAST_SUM, ModuleGate, gumbel_noise
from evodevo.module_zoo.router.relations import Relations
from evodevo.module_zoo.router.values import ModuleValues
from evodevo.module_zoo.spec import ZooRouterStructure
from evodevo.networks.routing.gates import FAR, widened
from evodevo.networks.routing.skipping import evened, largest, straight_through


@dataclass(frozen=True)
class Decision:
    """Who counts, and how much; float32 at least.

    Attributes:
        logits: (B, H, N), what the gate read. Those of illegal modules mean nothing.
        head_weights: (B, H, N), after top-K.
        weights: (B, N), their mean over heads. Rows sum to 1 with gates of the simplex; 0 where nobody is legal.
        legal: (B, N).
    """

    logits: Tensor
    head_weights: Tensor
    weights: Tensor
    legal: Tensor

    @property
    def chosen(self) -> Tensor:
        """(B, N), true where a module counts."""
        return self.weights > 0

    @property
    def silent(self) -> Tensor:
        """(B,), true at samples for which nobody counts: no module was legal, or a ``relu`` let none through."""
        return ~self.chosen.any(-1)


class ModuleRouter(nn.Module, ABC):
    """Decides and mixes, in training and evaluation alike; nothing depends on N or on the order of modules.

    Source: docs/spec/architect_thyself.md#notation.

    Args:
        width: d.
        structure: which router.
        heads: H.
    """

    def __init__(self, width: int, structure: ZooRouterStructure, heads: int) -> None:
        super().__init__()
        self.structure = structure
        self.norm = nn.LayerNorm(width) if structure.norm else nn.Identity()
        self.gate = ModuleGate(structure.gate)
        self.values = ModuleValues(width, heads, structure)

    def decide(
        self,
        query: Tensor,
        keys_from: Tensor | Relations,
        *,
        ids: Sequence[str] | None = None,
        legal: Tensor | None = None,
        contribution: Tensor | None = None,
        dense: bool = False,
        births: Tensor | None = None,
        twins: Mapping[int, int] | None = None,
    ) -> Decision:
        """Weights of modules for each sample.

        Args:
            query: f, (B, d).
            keys_from: (B, N, d), or (1, N, d) where all samples have the same: outputs u of the modules, or what stands
                for them. Routers that look at f alone, or at nothing, read nothing but N. Or what ``relate`` made of
                them before.
            ids: of the N modules, for routers that keep something of each; all that they were built for if left out.
            legal: (N,) or (B, N), false at modules that neither count nor matter to others; None for all.
            contribution: C, (N,); NaN at newborns, whose bias is 0 (eq. 10).
            dense: leave top-K out, as probes of single modules do.
            births: b, (N,) in [0, 1], 1 at mature modules; None where all are. See ``module_births``. Contributions of
                newborns play no part, and top-K counts mature modules alone: newborns are heard beside them. On the
                CPU they cost no wait.
            twins: place of a newborn -> place of the module that it is a copy of, and whose weight it shares.

        Raises:
            UsageError: birth factors outside [0, 1], or a twin of a module that is not older.
        """
        relations = keys_from if isinstance(keys_from, Relations) else self.relate(query, keys_from)
        batch, count = query.shape[0], relations.count
        allowed = None if legal is None else legal.expand(batch, count)
        heads = None if allowed is None else allowed.unsqueeze(1)
        born = None if births is None else Births.of(births, twins)
        if born is not None and born.newborn:
            logits, head_weights = self._with_newborns(query, relations, ids, heads, contribution, born, dense=dense)
        else:
            logits = self._logits(query, relations, ids, heads, contribution)
            head_weights = self.gate(logits, heads)
            if not dense:
                head_weights = self._at_most_k(head_weights)
        if allowed is None:
            allowed = torch.ones(1, 1, dtype=torch.bool, device=query.device).expand(batch, count)
        return Decision(logits, head_weights, head_weights.mean(1), allowed)

    def mix(self, decision: Decision, outputs: Tensor, query: Tensor) -> Tensor:
        """z_r, (B, d) (eqs. 51, 60).

        Args:
            decision: of ``decide``.
            outputs: u, (B, N, d); whatever finite numbers stand at modules of weight 0 have no influence.
            query: f, (B, d), which z_r is added to where the structure says ``residual``.
        """
        return self.mix_voices(decision.head_weights, self.voices(outputs), query)

    def voices(self, outputs: Tensor) -> Tensor:
        """What a mixture reads of each module, (B, N, d), whoever else is there: computed once where several follow."""
        normed: Tensor = self.norm(outputs)
        return normed

    def mix_voices(self, head_weights: Tensor, voices: Tensor, query: Tensor) -> Tensor:
        """As ``mix``, of weights (B, H, N) and what ``voices`` made of the outputs."""
        routed: Tensor = self.values(head_weights, voices)
        return routed + query if self.structure.residual else routed

    def insert(self, name: str) -> None:
        """Whatever is kept of each module, for a new one; see ``ModuleRows.insert``."""

    def remove(self, name: str) -> None:
        """Forget it."""

    def relate(self, query: Tensor, keys_from: Tensor) -> Relations:
        """What of a decision is the same whoever else is there; arguments as ``decide``."""
        return Relations(keys_from.shape[-2])

    def each_left_out(self, relations: Relations) -> list[Relations]:
        """What ``relate`` would say of all modules but one, for each of the N >= 2 of them: nothing is passed again."""
        everybody = range(relations.count)
        return [relations.only([one for one in everybody if one != place]) for place in everybody]

    @abstractmethod
    def _logits(
        self,
        query: Tensor,
        relations: Relations,
        ids: Sequence[str] | None,
        legal: Tensor | None,
        contribution: Tensor | None,
    ) -> Tensor:
        """(B, H, N), in float32 at least; legal is (B, 1, N), or None for all."""

    def _with_newborns(
        self,
        query: Tensor,
        relations: Relations,
        ids: Sequence[str] | None,
        legal: Tensor | None,
        contribution: Tensor | None,
        born: Births,
        *,
        dense: bool,
    ) -> tuple[Tensor, Tensor]:
        """Logits of all and weights, each (B, H, N)."""
        if contribution is not None:
            places = torch.tensor(born.newborn, device=contribution.device)
            contribution = contribution.index_fill(0, places, math.nan)
        logits = widened(self._logits(query, relations, ids, legal, contribution))
        noise, rank_noise = self._noise(logits, born, dense=dense)

        def weigh(places: tuple[int, ...]) -> tuple[Tensor, Tensor]:
            heard = torch.zeros(1, 1, logits.shape[-1], dtype=torch.bool, device=logits.device)
            heard = heard.index_fill(-1, torch.tensor(places, dtype=torch.long, device=logits.device), True)
            heard = heard if legal is None else heard & legal
            own = widened(self._logits(query, relations, ids, heard, contribution))
            return self.gate(own, heard, noise), own.masked_fill(~heard, FAR).softmax(-1) * heard

        head_weights = born.weights(weigh)
        return logits, head_weights if dense else self._at_most_k(head_weights, born, rank_noise)

    def _noise(self, logits: Tensor, born: Births, *, dense: bool) -> tuple[Tensor | None, Tensor | None]:
        """What gates (B, H, N) and ranks (B, N) are disturbed by, None where nothing is.

        Mature modules draw first, and what they would draw without newborns.
        """
        batch, heads, count = logits.shape
        mature, newborn = (torch.tensor(some, dtype=torch.long, device=logits.device) for some in born.split)
        noisy, limit = self.training and self.gate.kind == "gumbel", self.structure.top_k
        noise, ranks = None, None
        if noisy:
            drawn = gumbel_noise(logits.new_empty(batch, heads, len(mature)))
            noise = logits.new_zeros(batch, heads, count).index_copy(-1, mature, drawn)
        if self.training and self.structure.train_top_k == "gumbel" and not dense and limit and limit < count:
            ranks = logits.new_zeros(batch, count)
            if limit < len(mature):
                ranks = ranks.index_copy(-1, mature, gumbel_noise(logits.new_empty(batch, len(mature))))
        if noise is not None:
            noise = noise.index_copy(-1, newborn, gumbel_noise(logits.new_empty(batch, heads, len(newborn))))
        if ranks is not None:
            ranks = ranks.index_copy(-1, newborn, gumbel_noise(logits.new_empty(batch, len(newborn))))
        return noise, ranks

    def _at_most_k(self, head_weights: Tensor, born: Births | None = None, noise: Tensor | None = None) -> Tensor:
        """Only the K modules that count most in the mean over heads (eq. 61), and newborns beside them.

        All heads are divided by the share that the mean keeps, so that its weights are those of eq. 61, and a head
        without weight on the kept ones is silent instead of 0 / 0. Of equal weights the first modules are kept. As far
        as newborns are grown up, they are among the K instead of beside them; at 1 nothing jumps.
        """
        limit = self.structure.top_k
        count = head_weights.shape[-1]
        if limit is None or limit >= count or (self.training and self.structure.train_top_k == "off"):
            return head_weights
        hard = self._kept(head_weights, born, noise, limit)
        for factor, older in () if born is None else born.ages():
            if factor:
                joined = self._kept(head_weights, older if older.newborn else None, noise, limit)
                hard = (1 - factor) * hard + factor * joined
        return straight_through(head_weights, hard) if self.training else hard

    def _kept(self, head_weights: Tensor, born: Births | None, noise: Tensor | None, limit: int) -> Tensor:
        """The weights of the K mature modules that count most, and of newborns."""
        if born is not None and limit >= len(born.mature):
            return head_weights
        with torch.no_grad():
            weights = head_weights.mean(1)
            if born is not None:
                weights = born.together(weights)
            rank = evened(weights)
            if self.training and self.structure.train_top_k == "gumbel":
                noise = gumbel_noise(weights) if noise is None else noise
                noisy = weights.clamp(min=torch.finfo(weights.dtype).tiny).log() + noise
                rank = noisy.masked_fill(weights == 0, FAR)
            if born is not None:
                rank = rank.index_fill(-1, torch.tensor(born.newborn, device=rank.device), 2 * FAR)
            kept = largest(rank, limit)
            if born is not None:
                kept = born.beside(kept)
            kept = kept.unsqueeze(1)
        hard = head_weights * kept
        share = hard.sum((1, 2), keepdim=True) / head_weights.sum((1, 2), keepdim=True).clamp(min=LEAST_SUM)
        return hard / share.clamp(min=LEAST_SUM)

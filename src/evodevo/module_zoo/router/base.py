"""Base of all routers over modules: logits to weights, at most K of them, and the mixture (eqs. 51, 52, 60, 61).

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
class RouterOutput:
    """Router weights of the modules for each sample; float32 at least.

    Attributes:
        logits: Logits, (B, H, N), as the gate read them. Those of illegal modules have no meaning.
        head_weights: Weights by head after top-K, (B, H, N).
        weights: Mean of the weights over heads, (B, N). Rows sum to 1 with gates of the simplex; 0 where none is legal.
        legal: Whether a module may be used, (B, N).
    """

    logits: Tensor
    head_weights: Tensor
    weights: Tensor
    legal: Tensor

    @property
    def chosen(self) -> Tensor:
        """Whether a module has a weight above 0, (B, N)."""
        return self.weights > 0

    @property
    def unrouted(self) -> Tensor:
        """Samples without any weight, (B,): no module was legal, or all logits of a ``relu`` gate were below 0."""
        return ~self.chosen.any(-1)


class ModuleRouter(nn.Module, ABC):
    """Computes weights and the mixture, in training and evaluation alike; independent of N and of the modules' order.

    Source: docs/spec/architect_thyself.md#notation.

    Args:
        width: Width d.
        structure: Structure of the router.
        heads: Number of heads, H.
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
        beside: bool = False,
    ) -> RouterOutput:
        """Weights of modules for each sample.

        Args:
            query: Fused input f, (B, d).
            keys_from: Module outputs u, or what replaces them, (B, N, d), or (1, N, d) where all samples have the same.
                Routers that read f alone, or nothing, read only N of it. Or a result of ``relate``.
            ids: Ids of the N modules, for routers with parameters of each; all that they were built for if left out.
            legal: (N,) or (B, N), false at modules that neither count nor affect others; None for all.
            contribution: Contribution C, (N,); NaN at newborns, whose bias is 0 (eq. 10).
            dense: Whether top-K is left out, as in probes of single modules.
            births: Birth factors b, (N,) in [0, 1], 1 at mature modules; None where all are. See ``module_births``.
                Contributions of newborns play no part, and top-K counts mature modules only: newborns are added to
                them. On the CPU they cost no synchronisation.
            twins: Index of the module that a newborn copies, and whose weight it shares, by index of the newborn.
            beside: Whether newborns are added beside the gate until they are warm: rows then sum to more than 1.

        Raises:
            UsageError: Birth factors outside [0, 1], or a twin of a module that is not older.
        """
        relations = self.relate(query, keys_from) if isinstance(keys_from, Tensor) else keys_from
        batch, count = query.shape[0], relations.count
        allowed = None if legal is None else legal.expand(batch, count)
        heads = None if allowed is None else allowed.unsqueeze(1)
        born = None if births is None else Births.of(births, twins, added=beside)
        if born is not None and born.newborn:
            logits, head_weights = self._with_newborns(query, relations, ids, heads, contribution, born, dense=dense)
        else:
            logits = self._logits(query, relations, ids, heads, contribution)
            head_weights = self.gate(logits, heads)
            if not dense:
                head_weights = self._at_most_k(head_weights)
        if allowed is None:
            allowed = torch.ones(1, 1, dtype=torch.bool, device=query.device).expand(batch, count)
        return RouterOutput(logits, head_weights, head_weights.mean(1), allowed)

    def mix(self, decision: RouterOutput, outputs: Tensor, query: Tensor) -> Tensor:
        """Mixture z_r, (B, d) (eqs. 51, 60).

        Args:
            decision: Result of ``decide``.
            outputs: Module outputs u, (B, N, d); finite numbers at modules of weight 0 have no influence.
            query: Fused input f, (B, d), added to z_r where the structure has ``residual``.
        """
        return self.mix_voices(decision.head_weights, self.voices(outputs), query)

    def voices(self, outputs: Tensor) -> Tensor:
        """Module values that a mixture reads, (B, N, d), each independent of the others: computed once for several."""
        normed: Tensor = self.norm(outputs)
        return normed

    def mix_voices(self, head_weights: Tensor, voices: Tensor, query: Tensor) -> Tensor:
        """Same as ``mix``, from weights (B, H, N) and the result of ``voices``."""
        routed: Tensor = self.values(head_weights, voices)
        return routed + query if self.structure.residual else routed

    def insert(self, name: str) -> None:
        """Add the router's parameters of a new module; see ``ModuleRows.insert``."""

    def remove(self, name: str) -> None:
        """Remove the router's parameters of a module."""

    def relate(self, query: Tensor, keys_from: Tensor) -> Relations:
        """The part of a decision that is independent of which other modules exist; arguments as for ``decide``."""
        return Relations(keys_from.shape[-2])

    def each_left_out(self, relations: Relations) -> list[Relations]:
        """The result of ``relate`` without each of the N >= 2 modules in turn; nothing is computed again."""
        places = range(relations.count)
        return [relations.only([other for other in places if other != place]) for place in places]

    @abstractmethod
    def _logits(
        self,
        query: Tensor,
        relations: Relations,
        ids: Sequence[str] | None,
        legal: Tensor | None,
        contribution: Tensor | None,
    ) -> Tensor:
        """Logits (B, H, N), in float32 at least; legal is (B, 1, N), or None for all."""

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
        """Logits and weights of all modules, each (B, H, N)."""
        if contribution is not None:
            places = torch.tensor(born.newborn, device=contribution.device)
            contribution = contribution.index_fill(0, places, math.nan)
        logits = widened(self._logits(query, relations, ids, legal, contribution))
        noise, rank_noise = self._noise(logits, born, dense=dense)

        def weigh(places: tuple[int, ...]) -> tuple[Tensor, Tensor]:
            enabled = torch.zeros(1, 1, logits.shape[-1], dtype=torch.bool, device=logits.device)
            enabled = enabled.index_fill(-1, torch.tensor(places, dtype=torch.long, device=logits.device), True)
            enabled = enabled if legal is None else enabled & legal
            own = widened(self._logits(query, relations, ids, enabled, contribution))
            gated, even = self.gate(own, enabled, noise), own.masked_fill(~enabled, FAR).softmax(-1) * enabled
            if not born.added:
                return gated, even
            # Each gate has its K, and newborns are beside them.
            gated = gated if dense else self._at_most_k(gated, None, rank_noise)
            return gated, (even + enabled / len(places)) / 2

        head_weights = born.weights(weigh)
        return logits, head_weights if dense or born.added else self._at_most_k(head_weights, born, rank_noise)

    def _noise(self, logits: Tensor, born: Births, *, dense: bool) -> tuple[Tensor | None, Tensor | None]:
        """Noise of gates (B, H, N) and of ranks (B, N); None where there is none.

        Mature modules draw first, so that their noise is the same as without newborns.
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
        """Weights of the K modules with the largest mean over heads (eq. 61), and of newborns beside them.

        All heads are divided by the share that the mean keeps, so that its weights are those of eq. 61, and a head
        without weight on the kept ones has weight 0 instead of 0 / 0. Of equal weights the first modules are kept. As
        far as newborns are grown up, they are among the K instead of beside them; at 1 nothing jumps.
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
        """Weights of the K mature modules with the largest weight, and of newborns."""
        if born is not None and limit >= len(born.mature):
            return head_weights
        # A ranking has no gradient; the kept weights below have theirs.
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
        # One divisor for all heads; see ``_at_most_k``.
        share = hard.sum((1, 2), keepdim=True) / head_weights.sum((1, 2), keepdim=True).clamp(min=LEAST_SUM)
        return hard / share.clamp(min=LEAST_SUM)

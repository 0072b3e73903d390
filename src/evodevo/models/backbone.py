"""A language model from a backbone genome.

Embedding, LIVs with pre-norm residuals, a final norm, a head. Weights of feature groups live once in a bank; LIVs hold
their keys. Shared features are passed from owner to borrower as tensors of this forward pass.

Legend: B batch, T tokens, D width, V vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from evodevo.errors import UsageError
from evodevo.models.settings import LanguageModelSettings
from evodevo.operators.base import select_rows, used_bytes
from evodevo.operators.block import Block
from evodevo.operators.compiled import build_operator
from evodevo.operators.dense import linear
from evodevo.operators.differential import Differential
from evodevo.operators.featurizers import FeatureGroup, build_group
from evodevo.operators.liv import LIV, NORM_EPSILON, STATE
from evodevo.spaces.backbone_genome import LIVPlan
from evodevo.spaces.operator import Dimensions

HEAD_STD = 0.02


@dataclass
class State:
    """What generation keeps: per LIV the tensors that its specification names."""

    livs: list[dict[str, Any]]
    length: int = 0

    def used_bytes(self) -> int:
        """Bytes of the written part of every tensor."""
        return sum(used_bytes(liv) for liv in self.livs)

    def select(self, rows: Tensor) -> State:
        """A copy with these rows of the batch."""
        return State([select_rows(liv, rows) for liv in self.livs], self.length)


class Backbone(nn.Module):
    """A causal language model.

    ``checkpointing`` trades time for memory while training: activations inside a LIV are computed again.

    Args:
        plans: the LIVs with their connections, from ``BackboneSpace.plan``.
        dims: sizes.
        settings: vocabulary and head.
    """

    def __init__(self, plans: tuple[LIVPlan, ...], dims: Dimensions, settings: LanguageModelSettings) -> None:
        super().__init__()
        self.plans = plans
        self.dims = dims
        self.settings = settings
        self.embedding = nn.Embedding(settings.vocabulary, dims.width)
        self.bank = nn.ModuleDict()
        self.blocks = nn.ModuleList(Block(self._operator(plan), dims.width, normed=plan.reads_input) for plan in plans)
        self.norm = nn.RMSNorm(dims.width, eps=NORM_EPSILON)
        self.head = None if settings.tied else nn.Linear(dims.width, settings.vocabulary, bias=False)
        self.checkpointing = False
        self._needs = self._borrowings()
        self._lenders = {owner for need in self._needs for owner, _ in need.values()}
        self._residual_sources = {plan.residual for plan in plans if plan.residual is not None}
        self._initialise()

    def _operator(self, plan: LIVPlan) -> Any:
        def lend(role: str, copy: str) -> FeatureGroup:
            key = f"{plan.weights[role]}_{role}" + (f"_{copy}" if plan.spec.copies > 1 else "")
            if key not in self.bank:
                self.bank[key] = build_group(plan.spec, role, self.dims)
            return self.bank[key]  # type: ignore[return-value]

        names = plan.spec.state(plan.owned, self.dims)
        kept = frozenset(n for n in names if plan.state_owner.get(n, plan.position) == plan.position)
        return build_operator(plan.spec, self.dims, lend, plan.owned, kept)

    def _borrowings(self) -> list[dict[str, tuple[int, str]]]:
        """Per LIV: name it reads -> (owner, name there)."""
        needs: list[dict[str, tuple[int, str]]] = []
        for plan in self.plans:
            need = {role: (owner, role) for role, owner in plan.origin.items() if owner != plan.position}
            for name, owner in plan.state_owner.items():
                if owner != plan.position and name in plan.spec.state(plan.owned, self.dims):
                    need[STATE + name] = (owner, STATE + name)
            needs.append(need)
        return needs

    def _initialise(self) -> None:
        """Small logits at the start, and outputs scaled so that the residual sum has about unit size at any depth."""
        with torch.no_grad():
            self.embedding.weight.normal_(std=HEAD_STD if self.settings.tied else 1.0)
            if self.head is not None:
                self.head.weight.normal_(std=HEAD_STD)
            for block in self._blocks():
                operator = block.operator
                copies = (operator.first, operator.second) if isinstance(operator, Differential) else (operator,)
                for copy in cast("tuple[LIV, ...]", copies):
                    copy.out.mul_((len(self.plans) * len(copies)) ** -0.5)

    def _blocks(self) -> list[Block]:
        return cast("list[Block]", list(self.blocks))

    def forward(self, tokens: Tensor, *, mask: Tensor | None = None, state: State | None = None) -> Tensor:
        """Logits.

        Args:
            tokens: (B, T) integers. With a state they continue its sequence; any split gives the same logits.
            mask: (B, T), true at real tokens; padding stands on the left.
            state: from ``initial_state``; brought up to date by the call.

        Returns:
            (B, T, V).
        """
        return self.logits(self.hidden(tokens, mask=mask, state=state))

    def hidden(self, tokens: Tensor, *, mask: Tensor | None = None, state: State | None = None) -> Tensor:
        """The residual stream after the last LIV, normalised: (B, T, D)."""
        x: Tensor = self.embedding(tokens)
        lent: dict[int, dict[str, Any]] = {}
        outputs: dict[int, Tensor] = {}
        for plan, block, need in zip(self.plans, self.blocks, self._needs, strict=True):
            if plan.residual is not None:
                x = x + outputs[plan.residual]
            shared = {name: lent[owner][there] for name, (owner, there) in need.items() if there in lent[owner]}
            before = None if state is None else state.livs[plan.position]
            if self.checkpointing and before is None:
                # Shared features are explicit arguments and results, so recomputation finds the same ones.
                result = checkpoint(block, x, mask=mask, shared=shared, state=None, use_reentrant=False)
            else:
                result = block(x, mask=mask, shared=shared, state=before)
            x = result.y
            if plan.position in self._lenders:
                lent[plan.position] = result.groups
            if plan.position in self._residual_sources:
                outputs[plan.position] = x
            if state is not None:
                state.livs[plan.position] = result.state
        if state is not None:
            state.length += tokens.shape[1]
        normalised: Tensor = self.norm(x)
        return normalised

    def logits(self, hidden: Tensor) -> Tensor:
        """(B, T, D) -> (B, T, V)."""
        return linear(hidden, self.embedding.weight if self.head is None else self.head.weight)

    def loss(self, windows: Tensor) -> Tensor:
        """Mean cross-entropy in nats of predicting each token of windows (B, T+1) from those before it."""
        logits = self(windows[:, :-1])
        precise = torch.promote_types(logits.dtype, torch.float32)
        return F.cross_entropy(logits.flatten(0, 1).to(precise), windows[:, 1:].flatten())

    def initial_state(self, batch: int, max_length: int = 0) -> State:
        """The state before the first token; room for ``max_length`` tokens is set aside.

        Raises:
            UsageError: batch below 1.
        """
        if batch < 1:
            raise UsageError(f"batch is {batch}; it must be at least 1.")
        weight: Tensor = self.embedding.weight
        return State([block.initial_state(batch, max_length, weight.dtype, weight.device) for block in self._blocks()])

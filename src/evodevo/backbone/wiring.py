"""LIVs in a row with what they share: weights live once in a bank, features pass from owner to borrower as tensors.

Legend: B batch, T tokens, D width.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from evodevo.backbone.compiled import Backend, Unit, compiler, copies_of
from evodevo.backbone.genome import LIVPlan
from evodevo.operators.base import Operator, Output
from evodevo.operators.block import Block
from evodevo.operators.build import build_operator
from evodevo.operators.featurizers import FeatureGroup, build_group
from evodevo.operators.liv import STATE
from evodevo.operators.spec import Dimensions


class Wiring:
    """Construction and execution of the LIVs of a backbone, or of a closed span of one.

    Args:
        plans: the LIVs in their order, with positions of the whole backbone.
        dims: sizes.
    """

    def __init__(self, plans: tuple[LIVPlan, ...], dims: Dimensions) -> None:
        self.plans = plans
        self.dims = dims
        self._needs = [self._borrowings(plan) for plan in plans]
        self._lenders = {owner for need in self._needs for owner, _ in need.values()}
        self._residual_sources = {plan.residual for plan in plans if plan.residual is not None}

    def _borrowings(self, plan: LIVPlan) -> dict[str, tuple[int, str]]:
        """Name that a LIV reads -> (owner, name there)."""
        need = {role: (owner, role) for role, owner in plan.origin.items() if owner != plan.position}
        for name, owner in plan.state_owner.items():
            if owner != plan.position and name in plan.spec.state(plan.owned, self.dims):
                need[STATE + name] = (owner, STATE + name)
        return need

    def build(self, bank: nn.ModuleDict, *, residual: bool = True) -> nn.ModuleList:
        """The blocks; feature groups that the bank lacks are put into it, under the position that names them."""
        return nn.ModuleList(
            Block(self._operator(plan, bank), self.dims.width, normed=plan.reads_input, residual=residual)
            for plan in self.plans
        )

    def _operator(self, plan: LIVPlan, bank: nn.ModuleDict) -> Operator:
        def lend(role: str, copy: str) -> FeatureGroup:
            key = f"{plan.weights[role]}_{role}" + (f"_{copy}" if plan.spec.copies > 1 else "")
            if key not in bank:
                bank[key] = build_group(plan.spec, role, self.dims)
            return bank[key]  # type: ignore[return-value]

        names = plan.spec.state(plan.owned, self.dims)
        kept = frozenset(n for n in names if plan.state_owner.get(n, plan.position) == plan.position)
        return build_operator(plan.spec, self.dims, lend, plan.owned, kept)

    def scale_outputs(self, blocks: nn.ModuleList) -> None:
        """Make outputs so small that the residual sum has about unit size at any depth."""
        for block in cast("list[Block]", list(blocks)):
            copies = copies_of(block)
            for copy in copies:
                copy.out.mul_((len(self.plans) * len(copies)) ** -0.5)

    def run(
        self,
        blocks: nn.ModuleList,
        x: Tensor,
        *,
        mask: Tensor | None = None,
        states: list[dict[str, Any]] | None = None,
        checkpointing: bool = False,
        compiled: Backend = "off",
    ) -> Tensor:
        """The residual stream after the last LIV.

        Args:
            blocks: blocks from ``build``.
            x: (B, T, D).
            mask: (B, T), true at real tokens.
            states: per LIV; brought up to date.
            checkpointing: activations inside a LIV are computed again in the backward pass.
            compiled: backend of ``torch.compile`` for blocks without a state and a mask, while gradients are kept.
        """
        compiling = compiled != "off" and states is None and mask is None and torch.is_grad_enabled()
        lent: dict[int, dict[str, Any]] = {}
        outputs: dict[int, Tensor] = {}
        for place, (plan, block, need) in enumerate(zip(self.plans, blocks, self._needs, strict=True)):
            if plan.residual is not None:
                x = x + outputs[plan.residual]
            shared = {name: lent[owner][there] for name, (owner, there) in need.items() if there in lent[owner]}
            before = None if states is None else states[place]
            run: Callable[..., Output] = block
            if compiling:
                run = self._compiled(compiled, plan, cast(Block, block), need)
            if checkpointing and before is None:
                # Shared features are explicit arguments and results, so recomputation finds the same ones.
                result = checkpoint(run, x, mask=mask, shared=shared, state=None, use_reentrant=False)
            else:
                result = run(x, mask=mask, shared=shared, state=before)
            x = result.y
            if plan.position in self._lenders:
                lent[plan.position] = result.groups
            if plan.position in self._residual_sources:
                outputs[plan.position] = x
            if states is not None:
                states[place] = result.state
        return x

    def _compiled(
        self, backend: Backend, plan: LIVPlan, block: Block, need: Mapping[str, Any]
    ) -> Callable[..., Output]:
        """The block as a function of the same arguments."""
        # What its code depends on; weights and shapes are arguments.
        kind = repr((plan.spec, self.dims, plan.reads_input, block.residual, sorted(plan.owned), sorted(need)))
        unit = Unit(block)

        def run(x: Tensor, *, mask: None, shared: Mapping[str, Any], state: None) -> Output:
            return compiler(backend).run(kind, unit, x, shared)

        return run

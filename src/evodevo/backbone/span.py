"""A closed span of an evolved backbone as one operator: what was found by evolution becomes a layer of a network.

Legend: B batch, T tokens, D width.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import torch
from torch import Tensor, nn

from evodevo.backbone.genome import LIVPlan
from evodevo.backbone.wiring import Wiring
from evodevo.errors import UsageError
from evodevo.operators.base import Operator, Output
from evodevo.operators.block import Block
from evodevo.operators.spec import Dimensions


class BackboneSpan(Operator):
    """LIVs in pre-norm residual blocks, with all that they share among themselves.

    Entries of the bank have the names that they have in the whole backbone.

    Args:
        plans: plans of the span's LIVs, from ``SpanLayer.plans``.
        dims: sizes.
        residual: false takes the residual connections away, those of STAR A.7 excepted.
    """

    def __init__(self, plans: tuple[LIVPlan, ...], dims: Dimensions, *, residual: bool = True) -> None:
        super().__init__()
        self.wiring = Wiring(plans, dims)
        self.bank = nn.ModuleDict()
        self.blocks = self.wiring.build(self.bank, residual=residual)
        with torch.no_grad():
            self.wiring.scale_outputs(self.blocks)

    def forward(
        self,
        x: Tensor,
        *,
        mask: Tensor | None = None,
        shared: Mapping[str, Any] | None = None,
        state: dict[str, Any] | None = None,
    ) -> Output:
        """See ``Operator``."""
        states = None if state is None else list(state.values())
        y = self.wiring.run(self.blocks, x, mask=mask, states=states)
        after = None if state is None or states is None else dict(zip(state, states, strict=True))
        return Output(y, {}, after)

    def initial_state(self, batch: int, max_length: int, dtype: torch.dtype, device: torch.device) -> dict[str, Any]:
        """The LIVs' states by their positions in the whole backbone."""
        return {
            str(plan.position): block.initial_state(batch, max_length, dtype, device)
            for plan, block in zip(self.wiring.plans, cast("list[Block]", list(self.blocks)), strict=True)
        }

    def inherit(self, weights: Mapping[str, Tensor]) -> None:
        """Take over the weights that these LIVs have in a whole backbone.

        Args:
            weights: the state dict of a ``backbone.model.Backbone`` of the same genome.

        Raises:
            UsageError: a weight is missing or has another shape: it is of another backbone.
        """
        first = self.wiring.plans[0].position
        state: dict[str, Tensor] = {}
        for name, mine in self.state_dict().items():
            part, _, rest = name.partition(".")
            number, _, inside = rest.partition(".")
            source = f"blocks.{int(number) + first}.{inside}" if part == "blocks" else name
            theirs = weights.get(source)
            if theirs is None or theirs.shape != mine.shape:
                shape = "missing" if theirs is None else f"of shape {tuple(theirs.shape)}"
                raise UsageError(
                    f"the weight {source!r} is {shape}, and the span needs {tuple(mine.shape)}: these weights are of "
                    "another backbone."
                )
            state[name] = theirs
        self.load_state_dict(state)

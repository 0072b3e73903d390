"""A block in a loop of as many passes as a router says, after Mixture-of-Recursions (Bae et al. 2025).

The paper's token-choice, decided for whole samples, so that any layer may be in the block and no sample depends on
another, as it would with expert-choice. Its gate weighs here what the block adds and not its whole output, which a
pre-norm block would normalise away.

Legend: B samples, S positions, d width, N passes at most.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from torch import Tensor, nn

from evodevo.errors import UsageError
from evodevo.networks.inputs import Inputs
from evodevo.networks.iteration_embedding import IterationEmbedding
from evodevo.networks.mixtures.routing import balance_loss, top_k
from evodevo.networks.outputs import Outputs
from evodevo.networks.routing.pools import masked_mean
from evodevo.networks.stacks.spec import RecursionStructure
from evodevo.networks.stream import SingleStream
from evodevo.operators.base import full_precision
from evodevo.operators.layers.build import build_layer
from evodevo.operators.liv import NORM_EPSILON
from evodevo.tasks.base import OutputSpec
from evodevo.tasks.inputs import InputSpec

ROUTER_STD = 0.02
"""Spread of the router's first weights. With weights of 0 all samples would choose one pass."""


class Recursion(SingleStream):
    """One block, and a router that decides how many times each sample passes it.

    Args:
        structure: The block and the largest number of passes.
        inputs, outputs: Inputs and outputs of the task.

    Attributes:
        router: The mean over positions, scaled to length sqrt(d) -> logits of 1 to N passes.

    Raises:
        UsageError: Tokens are to be predicted.
    """

    def __init__(
        self, structure: RecursionStructure, inputs: tuple[InputSpec, ...], outputs: tuple[OutputSpec, ...]
    ) -> None:
        super().__init__(inputs, outputs)
        if any(spec.kind == "tokens" for spec in outputs):
            raise UsageError("a recursion decides on whole samples, so that it would read the tokens that it predicts.")
        self.structure = structure
        width = structure.width
        self.inputs = Inputs(
            inputs,
            width,
            structure.input_blocks,
            canvas=structure.canvas,
            slots=structure.slots,
            missing=structure.missing,
        )
        self.layers = nn.ModuleList(build_layer(spec, width, causal=False) for spec in structure.layers)
        kind: Literal["input", "none"] = "input" if structure.iteration_embedding else "none"
        self.embedding = IterationEmbedding(structure.most, width, kind)
        self.router = nn.Linear(width, structure.most)
        nn.init.normal_(self.router.weight, std=ROUTER_STD)
        nn.init.zeros_(self.router.bias)
        self.outputs = Outputs(outputs, width, structure.output_blocks)

    def update(self, x: Tensor, mask: Tensor | None) -> tuple[Tensor, Mapping[str, Tensor]]:
        """See ``SingleStream``."""
        with full_precision(x.device):
            seen = masked_mean(x.to(self.router.weight.dtype), mask)
            logits = self.router(nn.functional.rms_norm(seen, seen.shape[-1:], eps=NORM_EPSILON))
            routes, probabilities = top_k(logits, 1)
        for t in range(self.structure.most):
            rows = (routes.experts >= t).nonzero().squeeze(-1)  # one device synchronisation a pass
            if not len(rows):
                break
            before = self.embedding.on_input(x[rows], t)
            y, here = before, None if mask is None else mask[rows]
            for layer in self.layers:
                y = layer(y, mask=here).y
            after = before + routes.weights[rows].view(-1, 1, 1).to(y.dtype) * (y - before)
            x = x.to(after.dtype).index_copy(0, rows, after)
        if not self.training:
            return x, {}
        return x, {"balance": self.structure.balance * balance_loss(probabilities, routes.experts)}

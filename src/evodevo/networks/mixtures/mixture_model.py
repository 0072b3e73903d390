"""Stacks of mixtures of experts, and a single mixture in a loop.

Legend: B samples, S positions, d width.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, cast

import torch
from torch import Tensor, nn

from evodevo.networks.inputs import Inputs
from evodevo.networks.iteration_embedding import IterationEmbedding
from evodevo.networks.mixtures.experts import ExpertDecision, Mixture
from evodevo.networks.mixtures.spec import MixtureStructure
from evodevo.networks.outputs import Outputs
from evodevo.networks.stream import SingleStream, check_order
from evodevo.networks.writer import LayeredNetwork, States
from evodevo.operators.base import Operator, Output
from evodevo.operators.block import Block
from evodevo.operators.liv import NORM_EPSILON
from evodevo.operators.self_attention import SelfAttention
from evodevo.tasks.base import OutputSpec
from evodevo.tasks.inputs import InputSpec


class MixtureStep(Operator):
    """x + mixture(norm(x)), with attention before it where the structure has heads.

    Args:
        structure: Sizes of the mixture.
    """

    def __init__(self, structure: MixtureStructure) -> None:
        super().__init__()
        self.causal = self.streamable = structure.style != "soft_moe" and (structure.heads is None or structure.causal)
        self.norm = nn.RMSNorm(structure.width, eps=NORM_EPSILON)
        self.mixture = Mixture(structure, structure.routers)
        self.attention: Block | None = None
        if structure.heads is not None:
            attention = SelfAttention(structure.width, structure.heads, causal=structure.causal)
            self.attention = Block(attention, structure.width)

    def decide(
        self, x: Tensor, mask: Tensor | None, router: int = 0, state: dict[str, Any] | None = None
    ) -> tuple[Tensor, ExpertDecision | None, dict[str, Any] | None]:
        """(B, S, d) -> the same shape, in training what was decided, and the state brought up to date."""
        if self.attention is not None:
            mixed = self.attention(x, mask=mask, state=state)
            x, state = mixed.y, mixed.state
        y, decision = self.mixture.decide(self.norm(x.to(self.norm.weight.dtype)), mask, router)
        return x + y, decision, state

    def forward(
        self,
        x: Tensor,
        *,
        mask: Tensor | None = None,
        shared: Mapping[str, Any] | None = None,
        state: dict[str, Any] | None = None,
    ) -> Output:
        """See ``Operator``."""
        y, _, state = self.decide(x, mask, state=state)
        return Output(y, {}, state)

    def initial_state(self, batch: int, max_length: int, dtype: torch.dtype, device: torch.device) -> dict[str, Any]:
        """Attention's; without it nothing is kept."""
        return {} if self.attention is None else self.attention.initial_state(batch, max_length, dtype, device)


class MixtureStack(SingleStream, LayeredNetwork):
    """Mixtures of experts one after the other, or one of them several times.

    Args:
        structure: The mixtures.
        inputs, outputs: Inputs and outputs of the task.

    Raises:
        UsageError: Tokens are to be predicted by a network that is not causal.
    """

    def __init__(
        self, structure: MixtureStructure, inputs: tuple[InputSpec, ...], outputs: tuple[OutputSpec, ...]
    ) -> None:
        super().__init__(inputs, outputs)
        check_order(outputs, causal=structure.causal)
        self.structure = structure
        self.inputs = Inputs(
            inputs,
            structure.width,
            structure.input_blocks,
            canvas=structure.canvas,
            slots=structure.canvas_slots,
            causal=structure.causal,
            missing=structure.missing,
        )
        self.layers = nn.ModuleList(MixtureStep(structure) for _ in range(structure.built))
        kind: Literal["input", "none"] = "input" if structure.iteration_embedding else "none"
        self.embedding = IterationEmbedding(structure.depth, structure.width, kind)
        self.outputs = Outputs(outputs, structure.width, structure.output_blocks, causal=structure.causal)

    def update(self, x: Tensor, mask: Tensor | None) -> tuple[Tensor, Mapping[str, Tensor]]:
        """See ``SingleStream``."""
        return self._update(x, mask, None)

    def _update(
        self, x: Tensor, mask: Tensor | None, states: list[States] | None
    ) -> tuple[Tensor, Mapping[str, Tensor]]:
        """See ``update``; ``states`` of a text, by round and layer, are brought up to date."""
        steps = cast("list[MixtureStep]", list(self.layers))
        decisions: list[list[ExpertDecision]] = [[] for _ in steps]
        for t in range(self.structure.depth):
            number, place = divmod(t, len(steps))
            router = t if self.structure.pass_routers else 0
            state = None if states is None else states[number][place]
            x, decision, state = steps[place].decide(self.embedding.on_input(x, t), mask, router, state)
            if states is not None and state is not None:
                states[number][place] = state
            if decision is not None:
                decisions[place].append(decision)
        extra: dict[str, Tensor] = {}
        for step, made in zip(steps, decisions, strict=True):
            for name, value in step.mixture.losses(made).items() if made else ():
                extra[name] = extra[name] + value if name in extra else value
        return x, extra

    def hidden_layers(self) -> list[Operator]:
        """See ``LayeredNetwork``."""
        return cast("list[Operator]", list(self.layers))

    def rounds(self) -> int:
        """See ``LayeredNetwork``."""
        return int(self.structure.depth) // len(self.layers)

    def stream(self, x: Tensor, stream: list[States], number: int) -> Tensor:
        """See ``LayeredNetwork``."""
        return self._update(x, None, stream)[0]
